"""Numba kernels that go through steps one by one: bias and softplus, and the RMS norm.

Glossary
    N steps, W channels; arrays of (N, W) are flat, in C order
    sums: (threads, W), what each thread has added up over its steps, zero at entry

Each kernel does blocks of LANES channels and then what is left, in the same function.
"""

from __future__ import annotations

import math
from typing import Any

from resel.networks.ops.cpu.numba_math import inlined, kernel
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
def bias_softplus(x: Any, bias: Any, thread: int, threads: int) -> None:
    """x becomes ln(1 + e^(x + bias))."""
    width = len(bias)
    steps = len(x) // width
    whole = width - width % LANES
    for n in range(steps * thread // threads, steps * (thread + 1) // threads):
        for c in range(0, whole, LANES):
            _softplus_block(x, n * width, bias, c, LANES)
        if whole < width:
            _softplus_block(x, n * width, bias, whole, width - whole)


@inlined
def _softplus_slope_block(
    y: Any, grad_y: Any, grad: Any, at: int, sums: Any, to: int, wants_sums: bool, wide: int
) -> None:
    """With y = softplus(a), the slope 1 / (1 + e^-a) is 1 - e^-y."""
    nought = splat(y.dtype.type(0))
    slope = nought - expm1(nought - load_first(y, at, wide))
    g = slope * load_first(grad_y, at, wide)
    store_first(grad, at, g, wide)
    if wants_sums:
        store_first(sums, to, load_first(sums, to, wide) + g, wide)


@kernel
def softplus_backward(
    y: Any,  # (N, W)
    grad_y: Any,  # (N, W)
    grad: Any,  # out (N, W): gradient before the softplus
    sums: Any,  # out: of grad; empty if not wanted
    width: int,
    thread: int,
    threads: int,
) -> None:
    steps = len(y) // width
    whole = width - width % LANES
    wants_sums = len(sums) > 0
    own = thread * width
    for n in range(steps * thread // threads, steps * (thread + 1) // threads):
        at = n * width
        for c in range(0, whole, LANES):
            _softplus_slope_block(y, grad_y, grad, at + c, sums, own + c, wants_sums, LANES)
        if whole < width:
            rest = width - whole
            _softplus_slope_block(y, grad_y, grad, at + whole, sums, own + whole, wants_sums, rest)


@kernel
def rms_norm(
    x: Any,  # (N, W)
    weight: Any,  # (W,)
    eps: float,
    y: Any,  # out (N, W): x scale weight
    scale: Any,  # out (N,): 1 / sqrt(mean(x^2) + eps)
    thread: int,
    threads: int,
) -> None:
    width = len(weight)
    steps = len(scale)
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
    x: Any,
    weight: Any,
    scale: Any,
    grad_y: Any,  # (N, W)
    grad_x: Any,  # out (N, W)
    sums: Any,  # out: shares of the gradient of weight; empty if not wanted
    thread: int,
    threads: int,
) -> None:
    width = len(weight)
    steps = len(scale)
    whole = width - width % LANES
    rest = width - whole
    wants_sums = len(sums) > 0
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
