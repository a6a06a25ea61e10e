"""The selective scan on a CPU: fused over time, in Numba, forward and backward.

Glossary
    R rows, L length, D channels, S states per channel
    W = LANES channels are worked on together, one vector for each state
    K = CHUNK steps between stored states; backward recomputes the states inside a chunk
    T = TILE states that backward takes through a chunk together, so that all it needs for them
        stays in the fastest cache

Nothing of size (L, D, S) exists. Forward stores the state at the start of each chunk; backward
walks the chunks from the last to the first and rebuilds each into a scratch that fits the cache.
Channel blocks are independent but for dB and dC: backward takes all blocks of a thread through one
chunk and tile before the next, adds their shares up lane by lane, and sums the lanes at its end.
Decays are powers of two, 2^(delta A log2 e), which are cheaper than powers of e.
Arrays are given flat (C order of the shapes in the comments).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from resel.networks._numba_math import inlined, kernel
from resel.networks._vectors import LANES, exp, load, splat, spread, store, times_exp2, total

CHUNK = 16
TILE = 8
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
                        v = times_exp2(load(h, s * LANES), dt * load(a, s * LANES))
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
    share = group * rows * length * states  # this thread's part of grad_B and grad_C
    gated = len(z) > 0
    one = splat(u.dtype.type(1))
    nought = splat(u.dtype.type(0))
    ln_2 = splat(u.dtype.type(_LN_2))
    from_block = blocks * group // groups
    count = blocks * (group + 1) // groups - from_block
    wing = CHUNK * LANES
    a = _scratch(count * size, u)
    da = _scratch(count * size, u)
    dh = _scratch(count * size, u)
    d_skip = _scratch(count * LANES, u)
    dd = _scratch(count * LANES, u)
    # Of every block of channels, (K, W) each:
    dts = _scratch(count * wing, u)
    uts = _scratch(count * wing, u)
    gts = _scratch(count * wing, u)  # gradient of the ungated output
    slopes = _scratch(count * wing, u)  # grad_y times the slope of the gate
    ungated = _scratch(count * wing, u)
    along_a = _scratch(count * wing, u)  # sums over the states of what delta gets through A and B
    along_b = _scratch(count * wing, u)
    # Of one tile of one block:
    h = _scratch(TILE * LANES, u)
    before = _scratch(TILE * wing, u)  # state that each step of the chunk starts from
    decay = _scratch(TILE * wing, u)
    to_b = _scratch(TILE * wing, u)  # shares of grad_B and grad_C, (K, T, W)
    to_c = _scratch(TILE * wing, u)
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
            for i in range(count):
                first = (from_block + i) * LANES
                wide = min(LANES, channels - first)
                _load_chunk(delta, place, steps, channels, first, wide, dts[i * wing :])
                _load_chunk(u, place, steps, channels, first, wide, uts[i * wing :])
                _load_chunk(grad_y, place, steps, channels, first, wide, gts[i * wing :])
                skip = load(d_skip, i * LANES)
                along_d = load(dd, i * LANES)
                if gated:
                    _load_chunk(z, place, steps, channels, first, wide, slopes[i * wing :])
                for at in range(i * wing, i * wing + steps * LANES, LANES):
                    ut = load(uts, at)
                    gy = load(gts, at)
                    if gated:
                        gate = load(slopes, at)
                        sigmoid = one / (one + exp(nought - gate))
                        store(slopes, at, gy * sigmoid * (one + gate * (one - sigmoid)))
                        gy = gy * gate * sigmoid
                        store(gts, at, gy)
                    along_d = along_d + gy * ut
                    store(ungated, at, skip * ut)
                    store(along_a, at, nought)
                    store(along_b, at, nought)
                store(dd, i * LANES, along_d)
            for tile in range(0, states, TILE):
                high = min(TILE, states - tile)
                to_b[:] = 0
                to_c[:] = 0
                for i in range(count):
                    own = i * size + tile * LANES
                    at = ((row * chunks + chunk) * blocks + from_block + i) * size + tile * LANES
                    for s in range(high):
                        store(h, s * LANES, load(saved, at + s * LANES))
                    for k in range(steps):
                        if start[place + k]:
                            h[:] = 0
                        dt = load(dts, i * wing + k * LANES)
                        du = dt * load(uts, i * wing + k * LANES)
                        gt = load(gts, i * wing + k * LANES)
                        acc = load(ungated, i * wing + k * LANES)
                        at = (place + k) * states + tile
                        to = k * TILE * LANES
                        for s in range(high):
                            w = times_exp2(one, dt * load(a, own + s * LANES))
                            v = load(h, s * LANES)
                            store(decay, to + s * LANES, w)
                            store(before, to + s * LANES, v)
                            v = w * v + du * spread(B, at + s)
                            store(h, s * LANES, v)
                            acc = acc + v * spread(C, at + s)
                            store(to_c, to + s * LANES, load(to_c, to + s * LANES) + gt * v)
                        store(ungated, i * wing + k * LANES, acc)
                    for k in range(steps - 1, -1, -1):
                        dt = load(dts, i * wing + k * LANES)
                        du = dt * load(uts, i * wing + k * LANES)
                        gt = load(gts, i * wing + k * LANES)
                        by_a = load(along_a, i * wing + k * LANES)
                        by_b = load(along_b, i * wing + k * LANES)
                        at = (place + k) * states + tile
                        to = k * TILE * LANES
                        for s in range(high):
                            d = load(dh, own + s * LANES) + gt * spread(C, at + s)
                            store(to_b, to + s * LANES, load(to_b, to + s * LANES) + d * du)
                            by_b = by_b + d * spread(B, at + s)
                            w = d * load(decay, to + s * LANES)
                            store(dh, own + s * LANES, w)
                            x = w * load(before, to + s * LANES)
                            by_a = by_a + x * load(a, own + s * LANES)
                            store(da, own + s * LANES, load(da, own + s * LANES) + x * dt)
                        if start[place + k]:
                            dh[own : own + high * LANES] = 0
                        store(along_a, i * wing + k * LANES, by_a)
                        store(along_b, i * wing + k * LANES, by_b)
                for k in range(steps):
                    at = share + (place + k) * states + tile
                    to = k * TILE * LANES
                    for s in range(high):
                        grad_B[at + s] = total(load(to_b, to + s * LANES))
                        grad_C[at + s] = total(load(to_c, to + s * LANES))
            for i in range(count):
                first = (from_block + i) * LANES
                wide = min(LANES, channels - first)
                skip = load(d_skip, i * LANES)
                for at in range(i * wing, i * wing + steps * LANES, LANES):
                    dt = load(dts, at)
                    ut = load(uts, at)
                    by_b = load(along_b, at)
                    store(dts, at, load(along_a, at) * ln_2 + by_b * ut)
                    store(uts, at, load(gts, at) * skip + by_b * dt)
                    store(ungated, at, load(ungated, at) * load(slopes, at))
                _store_chunk(dts[i * wing :], place, steps, channels, first, wide, grad_delta)
                _store_chunk(uts[i * wing :], place, steps, channels, first, wide, grad_u)
                if gated:
                    _store_chunk(ungated[i * wing :], place, steps, channels, first, wide, grad_z)
        for i in range(count):
            first = (from_block + i) * LANES
            wide = min(LANES, channels - first)
            _scatter(dh[i * size :], first, wide, states, grad_initial[row * channels * states :])
    for i in range(count):
        first = (from_block + i) * LANES
        wide = min(LANES, channels - first)
        _scatter(dd[i * LANES :], first, wide, 1, grad_D)
        _scatter(da[i * size :], first, wide, states, grad_A)
