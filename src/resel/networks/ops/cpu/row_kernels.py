"""Numba kernels that go through steps one by one: bias and softplus, and the RMS norm.

Glossary
    N steps, W channels; arrays are dense, and given by their addresses (see `places`)
    sums: (threads, W), what each thread has added up over its steps, zero at entry; address 0
        where they are not wanted

Each kernel does blocks of LANES channels and then what is left, in the same function.
"""

from __future__ import annotations

import math
from typing import Any

from resel.networks.ops.cpu.numba_math import inlined, kernel
from resel.networks.ops.cpu.places import flat
from resel.networks.ops.cpu.vectors import (
    LANES,
    exp,
    expm1,
    larger,
    load_first,
    log1p,
    splat,
    store_first,
    total,
)


@inlined
def _softplus_block(x: Any, at: int, bias: Any, c: int, wide: int) -> None:
    nought = splat(x.dtype.type(0))
    a = load_first(x, at + c, wide) + load_first(bias, c, wide)
    minus_size = nought - larger(a, nought - a)
    store_first(x, at + c, larger(a, nought) + log1p(exp(minus_size)), wide)


@kernel
def bias_softplus(
    x_at: int,  # in and out (N, W)
    bias_at: int,  # (W,)
    steps: int,
    width: int,
    number: Any,
    thread: int,
    threads: int,
) -> None:
    """x becomes ln(1 + e^(x + bias))."""
    x, bias = flat(x_at, steps * width, number), flat(bias_at, width, number)
    whole = width - width % LANES
    for n in range(steps * thread // threads, steps * (thread + 1) // threads):
        for c in range(0, whole, LANES):
            _softplus_block(x, n * width, bias, c, LANES)
        if whole < width:
            _softplus_block(x, n * width, bias, whole, width - whole)


@inlined
def _softplus_slope_block(
    y: Any, grad: Any, at: int, sums: Any, to: int, wants_sums: bool, wide: int
) -> None:
    """With y = softplus(a), the slope 1 / (1 + e^-a) is 1 - e^-y."""
    nought = splat(y.dtype.type(0))
    slope = nought - expm1(nought - load_first(y, at, wide))
    g = slope * load_first(grad, at, wide)
    store_first(grad, at, g, wide)
    if wants_sums:
        store_first(sums, to, load_first(sums, to, wide) + g, wide)


@kernel
def softplus_backward(
    y_at: int,  # (N, W)
    grad_at: int,  # in and out (N, W): gradient behind, then before the softplus
    sums_at: int,  # out: of grad
    steps: int,
    width: int,
    number: Any,
    thread: int,
    threads: int,
) -> None:
    y, grad = flat(y_at, steps * width, number), flat(grad_at, steps * width, number)
    sums = flat(sums_at, threads * width, number)
    whole = width - width % LANES
    wants_sums = sums_at != 0
    own = thread * width
    for n in range(steps * thread // threads, steps * (thread + 1) // threads):
        at = n * width
        for c in range(0, whole, LANES):
            _softplus_slope_block(y, grad, at + c, sums, own + c, wants_sums, LANES)
        if whole < width:
            rest = width - whole
            _softplus_slope_block(y, grad, at + whole, sums, own + whole, wants_sums, rest)


@kernel
def rms_norm(
    x_at: int,  # (N, W)
    weight_at: int,  # (W,)
    eps: float,
    y_at: int,  # out (N, W): x scale weight
    scale_at: int,  # out (N,): 1 / sqrt(mean(x^2) + eps)
    steps: int,
    width: int,
    number: Any,
    thread: int,
    threads: int,
) -> None:
    x, y = flat(x_at, steps * width, number), flat(y_at, steps * width, number)
    weight, scale = flat(weight_at, width, number), flat(scale_at, steps, number)
    whole = width - width % LANES
    rest = width - whole
    for n in range(steps * thread // threads, steps * (thread + 1) // threads):
        at = n * width
        squares = splat(x.dtype.type(0))
        for c in range(0, whole, LANES):
            v = load_first(x, at + c, LANES)
            squares = squares + v * v
        if rest > 0:
            v = load_first(x, at + whole, rest)
            squares = squares + v * v
        scale[n] = x.dtype.type(1 / math.sqrt(total(squares) / width + eps))
        s = splat(scale[n])
        for c in range(0, whole, LANES):
            v = load_first(x, at + c, LANES) * s
            store_first(y, at + c, v * load_first(weight, c, LANES), LANES)
        if rest > 0:
            v = load_first(x, at + whole, rest) * s
            store_first(y, at + whole, v * load_first(weight, whole, rest), rest)


@inlined
def _norm_slope_block(
    x: Any, weight: Any, grad_y: Any, at: int, c: int, s: Any, mean: Any, grad_x: Any, sums: Any,
    own: int, wants_sums: bool, wide: int,
) -> None:  # fmt: skip
    normed = load_first(x, at + c, wide) * s
    g = load_first(grad_y, at + c, wide)
    store_first(grad_x, at + c, s * (g * load_first(weight, c, wide) - normed * mean), wide)
    if wants_sums:
        store_first(sums, own + c, load_first(sums, own + c, wide) + g * normed, wide)


@kernel
def rms_norm_backward(
    x_at: int,
    weight_at: int,
    scale_at: int,
    grad_y_at: int,  # (N, W)
    grad_x_at: int,  # out (N, W)
    sums_at: int,  # out: shares of the gradient of weight
    steps: int,
    width: int,
    number: Any,
    thread: int,
    threads: int,
) -> None:
    x, grad_y = flat(x_at, steps * width, number), flat(grad_y_at, steps * width, number)
    weight, scale = flat(weight_at, width, number), flat(scale_at, steps, number)
    grad_x, sums = flat(grad_x_at, steps * width, number), flat(sums_at, threads * width, number)
    whole = width - width % LANES
    rest = width - whole
    wants_sums = sums_at != 0
    own = thread * width
    for n in range(steps * thread // threads, steps * (thread + 1) // threads):
        at = n * width
        along = splat(x.dtype.type(0))
        for c in range(0, whole, LANES):
            g = load_first(grad_y, at + c, LANES) * load_first(weight, c, LANES)
            along = along + g * load_first(x, at + c, LANES)
        if rest > 0:
            g = load_first(grad_y, at + whole, rest) * load_first(weight, whole, rest)
            along = along + g * load_first(x, at + whole, rest)
        s = splat(scale[n])
        mean = splat(x.dtype.type(total(along) * scale[n] / width))  # of gradient times normed
        for c in range(0, whole, LANES):
            _norm_slope_block(
                x, weight, grad_y, at, c, s, mean, grad_x, sums, own, wants_sums, LANES
            )
        if rest > 0:
            _norm_slope_block(
                x, weight, grad_y, at, whole, s, mean, grad_x, sums, own, wants_sums, rest
            )
