"""Numba kernels of the short convolution with its SiLU.

Glossary
    N steps of a packed sequence (all rows one after another), W channels, T taps
    age_n: steps since the last start, so tap j may look back only while age_n >= j
    a: what the filters give, before the SiLU; backward computes it anew
    K = CHUNK steps are worked on together, one block of LANES channels after another

Arrays are given by their addresses (see `places`), in C order of the shapes in the comments; x and
its gradient have a stride between their steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from resel.networks.ops.cpu.blocks import gather, load_steps, scatter, scratch, store_steps
from resel.networks.ops.cpu.numba_math import inlined, kernel
from resel.networks.ops.cpu.places import array, flat
from resel.networks.ops.cpu.vectors import LANES, exp, load, splat, store

CHUNK = 64


@kernel
def ages(is_first_at: int, age_at: int, rows: int, length: int) -> None:
    """Places of a row since the last start; is_first, age (rows, length)."""
    is_first = array(is_first_at, (rows, length), np.uint8(0))
    age = array(age_at, (rows, length), np.int64(0))
    for row in range(rows):
        since = 0
        for t in range(length):
            since = 0 if is_first[row, t] or t == 0 else since + 1
            age[row, t] = since


@inlined
def _filtered(xs: Any, at: int, weight: Any, own: int, bias: Any, taps: int) -> Any:
    """a of one block at one step, which xs (steps, LANES) holds at `at`."""
    a = bias
    for j in range(taps):
        a = a + load(weight, own + j * LANES) * load(xs, at - j * LANES)
    return a


@kernel
def forward(
    x_at: int,  # (N, W) with a stride
    weight_at: int,  # (W, T)
    bias_at: int,  # (W,)
    age_at: int,  # (N,)
    y_at: int,  # out (N, W): silu(bias + sum_j weight_j x_{n-j})
    slots: int,
    width: int,
    taps: int,
    stride: int,
    number: Any,
    thread: int,
    threads: int,
) -> None:
    x, y = flat(x_at, slots * stride, number), flat(y_at, slots * width, number)
    weight, bias = flat(weight_at, width * taps, number), flat(bias_at, width, number)
    age = flat(age_at, slots, np.int64(0))
    blocks = (width + LANES - 1) // LANES
    from_block = blocks * thread // threads
    count = blocks * (thread + 1) // threads - from_block
    one = splat(x.dtype.type(1))
    nought = splat(x.dtype.type(0))
    ws = scratch(count * taps * LANES, x)
    bs = scratch(count * LANES, x)
    xs = scratch((taps - 1 + CHUNK) * LANES, x)  # from taps - 1 steps before the chunk on
    ys = scratch(CHUNK * LANES, x)
    for i in range(count):
        first = (from_block + i) * LANES
        wide = min(LANES, width - first)
        gather(weight, first, wide, taps, ws[i * taps * LANES :])
        gather(bias, first, wide, 1, bs[i * LANES :])
    for step in range(0, slots, CHUNK):
        steps = min(CHUNK, slots - step)
        early = min(taps - 1, step)
        for i in range(count):
            first = (from_block + i) * LANES
            wide = min(LANES, width - first)
            load_steps(x, step - early, early + steps, stride, first, wide, xs)
            b = load(bs, i * LANES)
            for k in range(steps):
                seen = min(taps, age[step + k] + 1)
                a = _filtered(xs, (early + k) * LANES, ws, i * taps * LANES, b, seen)
                store(ys, k * LANES, a / (one + exp(nought - a)))
            store_steps(ys, step, steps, width, first, wide, y)


@inlined
def _find_reach(age: Any, step: int, steps: int, taps: int, reach: Any) -> None:
    """How many taps see each of some steps: their own, and those of its trajectory that follow."""
    left = 0
    for k in range(steps - 1, -1, -1):
        left = 1 if k + 1 == steps or age[step + k + 1] == 0 else min(taps, left + 1)
        reach[k] = left


@kernel
def backward(
    x_at: int,
    weight_at: int,
    bias_at: int,
    age_at: int,
    grad_y_at: int,  # (N, W)
    grad_x_at: int,  # out (N, W) with a stride
    grad_weight_at: int,  # out (W, T), or 0 if not wanted
    grad_bias_at: int,  # out (W,), or 0
    slots: int,
    width: int,
    taps: int,
    stride: int,
    grad_stride: int,
    number: Any,
    thread: int,
    threads: int,
) -> None:
    x, grad_y = flat(x_at, slots * stride, number), flat(grad_y_at, slots * width, number)
    weight, bias = flat(weight_at, width * taps, number), flat(bias_at, width, number)
    age, grad_x = flat(age_at, slots, np.int64(0)), flat(grad_x_at, slots * grad_stride, number)
    grad_weight = flat(grad_weight_at, width * taps, number)
    grad_bias = flat(grad_bias_at, width, number)
    blocks = (width + LANES - 1) // LANES  # threads take channels, so that sums need no other
    from_block = blocks * thread // threads
    count = blocks * (thread + 1) // threads - from_block
    wanted = grad_weight_at != 0
    size = taps * LANES
    one = splat(x.dtype.type(1))
    nought = splat(x.dtype.type(0))
    ws = scratch(count * size, x)
    bs = scratch(count * LANES, x)
    dws = scratch(count * size, x)
    dbs = scratch(count * LANES, x)
    xs = scratch((2 * (taps - 1) + CHUNK) * LANES, x)
    gs = scratch((taps - 1 + CHUNK) * LANES, x)  # gradient of y, then that of a
    reach = np.empty(taps - 1 + CHUNK, np.int64)
    for i in range(count):
        first = (from_block + i) * LANES
        wide = min(LANES, width - first)
        gather(weight, first, wide, taps, ws[i * size :])
        gather(bias, first, wide, 1, bs[i * LANES :])
    for step in range(0, slots, CHUNK):
        steps = min(CHUNK, slots - step)
        late = min(taps - 1, slots - step - steps)  # steps beyond that see into the chunk
        early = min(taps - 1, step)
        _find_reach(age, step, steps + late, taps, reach)
        for i in range(count):
            first = (from_block + i) * LANES
            wide = min(LANES, width - first)
            load_steps(x, step - early, early + steps + late, stride, first, wide, xs)
            load_steps(grad_y, step, steps + late, width, first, wide, gs)
            b = load(bs, i * LANES)
            along_b = load(dbs, i * LANES)
            for k in range(steps + late):
                at = (early + k) * LANES
                seen = min(taps, age[step + k] + 1)
                a = _filtered(xs, at, ws, i * size, b, seen)
                sigmoid = one / (one + exp(nought - a))
                g = load(gs, k * LANES) * sigmoid * (one + a * (one - sigmoid))
                store(gs, k * LANES, g)
                if wanted and k < steps:
                    along_b = along_b + g
                    for j in range(seen):
                        to = i * size + j * LANES
                        store(dws, to, load(dws, to) + g * load(xs, at - j * LANES))
            store(dbs, i * LANES, along_b)
            for k in range(steps):
                d = nought
                for j in range(reach[k]):
                    d = d + load(ws, i * size + j * LANES) * load(gs, (k + j) * LANES)
                store(gs, k * LANES, d)
            store_steps(gs, step, steps, grad_stride, first, wide, grad_x)
    if wanted:
        for i in range(count):
            first = (from_block + i) * LANES
            wide = min(LANES, width - first)
            scatter(dws[i * size :], first, wide, taps, grad_weight)
            scatter(dbs[i * LANES :], first, wide, 1, grad_bias)
