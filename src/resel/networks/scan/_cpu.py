"""The selective scan on a CPU: fused over time, in Numba, forward and backward.

Glossary
    R rows, L length, D channels, S states per channel
    W = LANES channels are worked on together, one vector for each state
    K = CHUNK steps between stored states; backward recomputes the states inside a chunk

Nothing of size (L, D, S) exists. Forward stores the state at the start of each chunk; backward
walks the chunks from the last to the first and rebuilds each into a scratch that fits the cache.
Channel blocks are independent but for dB and dC: backward takes all blocks of a thread through
one chunk before the next, adds their shares up lane by lane, and sums the lanes once per chunk.
Decays are powers of two, 2^(delta A log2 e), which are cheaper than powers of e.
Arrays are given flat (C order of the shapes in the comments).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from resel.networks._numba_math import inlined, kernel
from resel.networks._vectors import LANES, exp, exp2, load, splat, spread, store, total

CHUNK = 16
_LOG2_E = 1 / math.log(2)
_LN_2 = math.log(2)


@inlined
def _scratch(size: int, like: Any) -> Any:
    """Zeros that begin on a cache line: a vector that crosses one costs twice."""
    raw = np.zeros(size + 64 // like.itemsize, like.dtype)
    skip = (-raw.ctypes.data % 64) // like.itemsize
    return raw[skip : skip + size]


@inlined
def _load_chunk(
    flat: Any, first_place: int, steps: int, channels: int, first: int, wide: int, out: Any
) -> None:
    """Copy one block of channels of some steps to (K, W); channels beyond the last are zero.

    The steps lie far apart in memory: fetched in a run of their own they arrive together, one
    by one in the recurrence each would be waited for.
    """
    for k in range(steps):
        at = (first_place + k) * channels + first
        if wide == LANES:
            store(out, k * LANES, load(flat, at))
        else:
            for c in range(wide):
                out[k * LANES + c] = flat[at + c]
            for c in range(wide, LANES):
                out[k * LANES + c] = 0


@inlined
def _store_chunk(
    block: Any, first_place: int, steps: int, channels: int, first: int, wide: int, flat: Any
) -> None:
    for k in range(steps):
        at = (first_place + k) * channels + first
        if wide == LANES:
            store(flat, at, load(block, k * LANES))
        else:
            for c in range(wide):
                flat[at + c] = block[k * LANES + c]


@inlined
def _gather(source: Any, first: int, wide: int, states: int, out: Any) -> None:
    """(D, S) entries of one block turned into (S, W)."""
    for s in range(states):
        for c in range(wide):
            out[s * LANES + c] = source[(first + c) * states + s]
        for c in range(wide, LANES):
            out[s * LANES + c] = 0


@inlined
def _gather_rates(A: Any, first: int, wide: int, states: int, out: Any) -> None:
    """A of one block as (S, W), for powers of two."""
    _gather(A, first, wide, states, out)
    scale = A.dtype.type(_LOG2_E)
    for i in range(states * LANES):
        out[i] *= scale


@inlined
def _scatter(block: Any, first: int, wide: int, states: int, out: Any) -> None:
    for s in range(states):
        for c in range(wide):
            out[(first + c) * states + s] = block[s * LANES + c]


@kernel
def forward(
    u: Any,  # (R, L, D)
    delta: Any,  # (R, L, D)
    A: Any,  # (D, S)
    B: Any,  # (R, L, S)
    C: Any,  # (R, L, S)
    D: Any,  # (D,)
    z: Any,  # (R, L, D), or empty for no gate
    start: Any,  # (R, L)
    initial: Any,  # (R, D, S)
    y: Any,  # out (R, L, D)
    saved: Any,  # out (R, chunks, D / W, S, W), or empty when no gradient is wanted
    final: Any,  # out (R, D, S)
    rows: int,
    length: int,
    channels: int,
    states: int,
    group: int,
    groups: int,
) -> None:
    blocks = (channels + LANES - 1) // LANES
    chunks = (length + CHUNK - 1) // CHUNK
    size = states * LANES
    gated = len(z) > 0
    keep = len(saved) > 0
    one = splat(u.dtype.type(1))
    nought = splat(u.dtype.type(0))
    h = _scratch(size, u)
    a = _scratch(size, u)
    d_skip = _scratch(LANES, u)
    dts = _scratch(CHUNK * LANES, u)
    uts = _scratch(CHUNK * LANES, u)
    zts = _scratch(CHUNK * LANES, u)
    yts = _scratch(CHUNK * LANES, u)
    for block in range(blocks * group // groups, blocks * (group + 1) // groups):
        first = block * LANES
        wide = min(LANES, channels - first)
        _gather_rates(A, first, wide, states, a)
        _gather(D, first, wide, 1, d_skip)
        for row in range(rows):
            _gather(initial[row * channels * states :], first, wide, states, h)
            for chunk in range(chunks):
                place = row * length + chunk * CHUNK
                steps = min(CHUNK, length - chunk * CHUNK)
                _load_chunk(delta, place, steps, channels, first, wide, dts)
                _load_chunk(u, place, steps, channels, first, wide, uts)
                if gated:
                    _load_chunk(z, place, steps, channels, first, wide, zts)
                if keep:
                    at = ((row * chunks + chunk) * blocks + block) * size
                    saved[at : at + size] = h
                for k in range(steps):
                    if start[place + k]:
                        h[:] = 0
                    dt = load(dts, k * LANES)
                    ut = load(uts, k * LANES)
                    du = dt * ut
                    acc = load(d_skip, 0) * ut
                    at = (place + k) * states
                    for s in range(states):
                        v = exp2(dt * load(a, s * LANES)) * load(h, s * LANES)
                        v = v + du * spread(B, at + s)
                        store(h, s * LANES, v)
                        acc = acc + v * spread(C, at + s)
                    if gated:
                        gate = load(zts, k * LANES)
                        acc = acc * gate / (one + exp(nought - gate))
                    store(yts, k * LANES, acc)
                _store_chunk(yts, place, steps, channels, first, wide, y)
            _scatter(h, first, wide, states, final[row * channels * states :])


@kernel
def backward(
    u: Any,
    delta: Any,
    A: Any,
    B: Any,
    C: Any,
    D: Any,
    z: Any,
    start: Any,
    saved: Any,
    grad_y: Any,  # (R, L, D)
    grad_final: Any,  # (R, D, S)
    grad_u: Any,  # out (R, L, D)
    grad_delta: Any,  # out (R, L, D)
    grad_A: Any,  # out (D, S)
    grad_B: Any,  # out (groups, R, L, S)
    grad_C: Any,  # out (groups, R, L, S)
    grad_D: Any,  # out (D,)
    grad_z: Any,  # out (R, L, D) or empty
    grad_initial: Any,  # out (R, D, S)
    rows: int,
    length: int,
    channels: int,
    states: int,
    group: int,
    groups: int,
) -> None:
    blocks = (channels + LANES - 1) // LANES
    chunks = (length + CHUNK - 1) // CHUNK
    size = states * LANES
    own = group * rows * length * states  # this thread's part of grad_B and grad_C
    gated = len(z) > 0
    one = splat(u.dtype.type(1))
    nought = splat(u.dtype.type(0))
    ln_2 = splat(u.dtype.type(_LN_2))
    from_block = blocks * group // groups
    count = blocks * (group + 1) // groups - from_block
    a = _scratch(count * size, u)
    da = _scratch(count * size, u)
    dh = _scratch(count * size, u)
    d_skip = _scratch(count * LANES, u)
    dd = _scratch(count * LANES, u)
    h = _scratch(size, u)
    before = _scratch(CHUNK * size, u)  # state that each step of the chunk starts from
    decay = _scratch(CHUNK * size, u)
    to_b = _scratch(CHUNK * size, u)  # shares of grad_B and grad_C, (K, S, W)
    to_c = _scratch(CHUNK * size, u)
    g = _scratch(CHUNK * LANES, u)  # gradient of the ungated output
    dts = _scratch(CHUNK * LANES, u)
    uts = _scratch(CHUNK * LANES, u)
    zts = _scratch(CHUNK * LANES, u)
    gys = _scratch(CHUNK * LANES, u)
    for i in range(count):
        first = (from_block + i) * LANES
        wide = min(LANES, channels - first)
        _gather_rates(A, first, wide, states, a[i * size :])
        _gather(D, first, wide, 1, d_skip[i * LANES :])
    for row in range(rows):
        for i in range(count):
            first = (from_block + i) * LANES
            wide = min(LANES, channels - first)
            _gather(grad_final[row * channels * states :], first, wide, states, dh[i * size :])
        for chunk in range(chunks - 1, -1, -1):
            place = row * length + chunk * CHUNK
            steps = min(CHUNK, length - chunk * CHUNK)
            to_b[:] = 0
            to_c[:] = 0
            for i in range(count):
                block = from_block + i
                first = block * LANES
                wide = min(LANES, channels - first)
                _load_chunk(delta, place, steps, channels, first, wide, dts)
                _load_chunk(u, place, steps, channels, first, wide, uts)
                _load_chunk(grad_y, place, steps, channels, first, wide, gys)
                if gated:
                    _load_chunk(z, place, steps, channels, first, wide, zts)
                skip = load(d_skip, i * LANES)
                along_d = load(dd, i * LANES)
                at = ((row * chunks + chunk) * blocks + block) * size
                h[:] = saved[at : at + size]
                for k in range(steps):
                    if start[place + k]:
                        h[:] = 0
                    dt = load(dts, k * LANES)
                    ut = load(uts, k * LANES)
                    du = dt * ut
                    gy = load(gys, k * LANES)
                    gate = load(zts, k * LANES)
                    sigmoid = one
                    gt = gy
                    if gated:
                        sigmoid = one / (one + exp(nought - gate))
                        gt = gy * gate * sigmoid
                    store(g, k * LANES, gt)
                    acc = skip * ut
                    at = (place + k) * states
                    to = k * size
                    for s in range(states):
                        w = exp2(dt * load(a, i * size + s * LANES))
                        v = load(h, s * LANES)
                        store(decay, to + s * LANES, w)
                        store(before, to + s * LANES, v)
                        v = w * v + du * spread(B, at + s)
                        store(h, s * LANES, v)
                        acc = acc + v * spread(C, at + s)
                        store(to_c, to + s * LANES, load(to_c, to + s * LANES) + gt * v)
                    if gated:
                        slope = sigmoid * (one + gate * (one - sigmoid))
                        store(zts, k * LANES, gy * acc * slope)
                if gated:
                    _store_chunk(zts, place, steps, channels, first, wide, grad_z)
                for k in range(steps - 1, -1, -1):
                    dt = load(dts, k * LANES)
                    ut = load(uts, k * LANES)
                    du = dt * ut
                    gt = load(g, k * LANES)
                    along_a = nought
                    along_b = nought
                    at = (place + k) * states
                    to = k * size
                    for s in range(states):
                        own_s = i * size + s * LANES
                        d = load(dh, own_s) + gt * spread(C, at + s)
                        store(to_b, to + s * LANES, load(to_b, to + s * LANES) + d * du)
                        along_b = along_b + d * spread(B, at + s)
                        w = d * load(decay, to + s * LANES)
                        store(dh, own_s, w)
                        x = w * load(before, to + s * LANES)
                        along_a = along_a + x * load(a, own_s)
                        store(da, own_s, load(da, own_s) + x * dt)
                    if start[place + k]:
                        dh[i * size : (i + 1) * size] = 0
                    along_d = along_d + gt * ut
                    store(uts, k * LANES, gt * skip + along_b * dt)
                    store(dts, k * LANES, along_a * ln_2 + along_b * ut)
                store(dd, i * LANES, along_d)
                _store_chunk(uts, place, steps, channels, first, wide, grad_u)
                _store_chunk(dts, place, steps, channels, first, wide, grad_delta)
            at = own + place * states
            for j in range(steps * states):
                grad_B[at + j] = total(load(to_b, j * LANES))
                grad_C[at + j] = total(load(to_c, j * LANES))
        for i in range(count):
            first = (from_block + i) * LANES
            wide = min(LANES, channels - first)
            _scatter(dh[i * size :], first, wide, states, grad_initial[row * channels * states :])
    for i in range(count):
        first = (from_block + i) * LANES
        wide = min(LANES, channels - first)
        _scatter(dd[i * LANES :], first, wide, 1, grad_D)
        _scatter(da[i * size :], first, wide, states, grad_A)
