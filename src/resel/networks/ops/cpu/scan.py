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
Arrays are given by their addresses (see `places`), in C order of the shapes in the comments; u,
delta, B, C, z and the gradient of z have strides from one step to the next, so that parts of a
projection's output need no copy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from resel.networks.ops.cpu.blocks import gather, load_steps, scatter, scratch, store_steps
from resel.networks.ops.cpu.numba_math import inlined, kernel
from resel.networks.ops.cpu.places import flat
from resel.networks.ops.cpu.vectors import LANES, exp, load, splat, spread, store, times_exp2, total

CHUNK = 16
TILE = 8
_LOG2_E = 1 / math.log(2)
_LN_2 = math.log(2)


@inlined
def _gather_rates(A: Any, first: int, wide: int, states: int, out: Any) -> None:
    """A of one block as (S, W), for powers of two."""
    gather(A, first, wide, states, out)
    scale = A.dtype.type(_LOG2_E)
    for i in range(states * LANES):
        out[i] *= scale


@kernel
def forward(
    u_at: int,  # (R, L, D)
    delta_at: int,  # (R, L, D)
    A_at: int,  # (D, S)
    B_at: int,  # (R, L, S)
    C_at: int,  # (R, L, S)
    D_at: int,  # (D,)
    z_at: int,  # (R, L, D), or 0 for no gate
    is_first_at: int,  # (R, L)
    initial_at: int,  # (R, D, S), or 0 for zeros
    y_at: int,  # out (R, L, D)
    saved_at: int,  # out (R, chunks, D / W, S, W), or 0 when no gradient is wanted
    final_at: int,  # out (R, D, S), or 0
    rows: int,
    length: int,
    channels: int,
    states: int,
    u_step: int,
    delta_step: int,
    b_step: int,
    c_step: int,
    z_step: int,
    number: Any,
    thread: int,
    threads: int,
) -> None:
    slots = rows * length
    u, delta = flat(u_at, slots * u_step, number), flat(delta_at, slots * delta_step, number)
    A, D = flat(A_at, channels * states, number), flat(D_at, channels, number)
    B, C = flat(B_at, slots * b_step, number), flat(C_at, slots * c_step, number)
    z, y = flat(z_at, slots * z_step, number), flat(y_at, slots * channels, number)
    is_first = flat(is_first_at, slots, np.uint8(0))
    initial = flat(initial_at, rows * channels * states, number)
    final = flat(final_at, rows * channels * states, number)
    blocks = (channels + LANES - 1) // LANES
    chunks = (length + CHUNK - 1) // CHUNK
    size = states * LANES
    saved = flat(saved_at, rows * chunks * blocks * size, number)
    gated = z_at != 0
    keep = saved_at != 0
    one = splat(u.dtype.type(1))
    nought = splat(u.dtype.type(0))
    h = scratch(size, u)
    a = scratch(size, u)
    d_skip = scratch(LANES, u)
    dts = scratch(CHUNK * LANES, u)
    uts = scratch(CHUNK * LANES, u)
    zts = scratch(CHUNK * LANES, u)
    yts = scratch(CHUNK * LANES, u)
    for block in range(blocks * thread // threads, blocks * (thread + 1) // threads):
        first = block * LANES
        wide = min(LANES, channels - first)
        _gather_rates(A, first, wide, states, a)
        gather(D, first, wide, 1, d_skip)
        for row in range(rows):
            if initial_at:
                gather(initial[row * channels * states :], first, wide, states, h)
            else:
                h[:] = 0
            for chunk in range(chunks):
                step = row * length + chunk * CHUNK
                steps = min(CHUNK, length - chunk * CHUNK)
                load_steps(delta, step, steps, delta_step, first, wide, dts)
                load_steps(u, step, steps, u_step, first, wide, uts)
                if gated:
                    load_steps(z, step, steps, z_step, first, wide, zts)
                if keep:
                    at = ((row * chunks + chunk) * blocks + block) * size
                    saved[at : at + size] = h
                for k in range(steps):
                    if is_first[step + k]:
                        h[:] = 0
                    dt = load(dts, k * LANES)
                    ut = load(uts, k * LANES)
                    du = dt * ut
                    acc = load(d_skip, 0) * ut
                    at_b, at_c = (step + k) * b_step, (step + k) * c_step
                    for s in range(states):
                        v = times_exp2(load(h, s * LANES), dt * load(a, s * LANES))
                        v = v + du * spread(B, at_b + s)
                        store(h, s * LANES, v)
                        acc = acc + v * spread(C, at_c + s)
                    if gated:
                        gate = load(zts, k * LANES)
                        acc = acc * gate / (one + exp(nought - gate))
                    store(yts, k * LANES, acc)
                store_steps(yts, step, steps, channels, first, wide, y)
            if final_at:
                scatter(h, first, wide, states, final[row * channels * states :])


@kernel
def backward(
    u_at: int,
    delta_at: int,
    A_at: int,
    B_at: int,
    C_at: int,
    D_at: int,
    z_at: int,
    is_first_at: int,
    saved_at: int,
    grad_y_at: int,  # (R, L, D)
    grad_final_at: int,  # (R, D, S), or 0 for zeros
    grad_u_at: int,  # out (R, L, D)
    grad_delta_at: int,  # out (R, L, D)
    grad_A_at: int,  # out (D, S)
    grad_B_at: int,  # out (threads, R, L, S)
    grad_C_at: int,  # out (threads, R, L, S)
    grad_D_at: int,  # out (D,)
    grad_z_at: int,  # out (R, L, D), with a stride
    grad_initial_at: int,  # out (R, D, S), or 0
    rows: int,
    length: int,
    channels: int,
    states: int,
    u_step: int,
    delta_step: int,
    b_step: int,
    c_step: int,
    z_step: int,
    grad_z_step: int,
    number: Any,
    thread: int,
    threads: int,
) -> None:
    slots = rows * length
    u, delta = flat(u_at, slots * u_step, number), flat(delta_at, slots * delta_step, number)
    A, D = flat(A_at, channels * states, number), flat(D_at, channels, number)
    B, C = flat(B_at, slots * b_step, number), flat(C_at, slots * c_step, number)
    z, is_first = flat(z_at, slots * z_step, number), flat(is_first_at, slots, np.uint8(0))
    grad_y = flat(grad_y_at, slots * channels, number)
    grad_u, grad_delta = (
        flat(grad_u_at, slots * channels, number),
        flat(grad_delta_at, slots * channels, number),
    )
    grad_A, grad_D = flat(grad_A_at, channels * states, number), flat(grad_D_at, channels, number)
    grad_B = flat(grad_B_at, threads * slots * states, number)
    grad_C = flat(grad_C_at, threads * slots * states, number)
    grad_z = flat(grad_z_at, slots * grad_z_step, number)
    grad_final = flat(grad_final_at, rows * channels * states, number)
    grad_initial = flat(grad_initial_at, rows * channels * states, number)
    blocks = (channels + LANES - 1) // LANES
    chunks = (length + CHUNK - 1) // CHUNK
    size = states * LANES
    share = thread * rows * length * states  # this thread's part of grad_B and grad_C
    saved = flat(saved_at, rows * chunks * blocks * size, number)
    gated = z_at != 0
    one = splat(u.dtype.type(1))
    nought = splat(u.dtype.type(0))
    ln_2 = splat(u.dtype.type(_LN_2))
    from_block = blocks * thread // threads
    count = blocks * (thread + 1) // threads - from_block
    wing = CHUNK * LANES
    a = scratch(count * size, u)
    da = scratch(count * size, u)
    dh = scratch(count * size, u)
    d_skip = scratch(count * LANES, u)
    dd = scratch(count * LANES, u)
    # Of every block of channels, (K, W) each:
    dts = scratch(count * wing, u)
    uts = scratch(count * wing, u)
    gts = scratch(count * wing, u)  # gradient of the ungated output
    slopes = scratch(count * wing, u)  # grad_y times the slope of the gate
    ungated = scratch(count * wing, u)
    along_a = scratch(count * wing, u)  # sums over the states of what delta gets through A and B
    along_b = scratch(count * wing, u)
    # Of one tile of one block:
    h = scratch(TILE * LANES, u)
    before = scratch(TILE * wing, u)  # state that each step of the chunk starts from
    decay = scratch(TILE * wing, u)
    to_b = scratch(TILE * wing, u)  # shares of grad_B and grad_C, (K, T, W)
    to_c = scratch(TILE * wing, u)
    for i in range(count):
        first = (from_block + i) * LANES
        wide = min(LANES, channels - first)
        _gather_rates(A, first, wide, states, a[i * size :])
        gather(D, first, wide, 1, d_skip[i * LANES :])
    for row in range(rows):
        for i in range(count):
            first = (from_block + i) * LANES
            wide = min(LANES, channels - first)
            if grad_final_at:
                gather(grad_final[row * channels * states :], first, wide, states, dh[i * size :])
            else:
                dh[i * size : (i + 1) * size] = 0
        for chunk in range(chunks - 1, -1, -1):
            step = row * length + chunk * CHUNK
            steps = min(CHUNK, length - chunk * CHUNK)
            for i in range(count):
                first = (from_block + i) * LANES
                wide = min(LANES, channels - first)
                load_steps(delta, step, steps, delta_step, first, wide, dts[i * wing :])
                load_steps(u, step, steps, u_step, first, wide, uts[i * wing :])
                load_steps(grad_y, step, steps, channels, first, wide, gts[i * wing :])
                skip = load(d_skip, i * LANES)
                along_d = load(dd, i * LANES)
                if gated:
                    load_steps(z, step, steps, z_step, first, wide, slopes[i * wing :])
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
                        if is_first[step + k]:
                            h[:] = 0
                        dt = load(dts, i * wing + k * LANES)
                        du = dt * load(uts, i * wing + k * LANES)
                        gt = load(gts, i * wing + k * LANES)
                        acc = load(ungated, i * wing + k * LANES)
                        at_b, at_c = (step + k) * b_step + tile, (step + k) * c_step + tile
                        to = k * TILE * LANES
                        for s in range(high):
                            w = times_exp2(one, dt * load(a, own + s * LANES))
                            v = load(h, s * LANES)
                            store(decay, to + s * LANES, w)
                            store(before, to + s * LANES, v)
                            v = w * v + du * spread(B, at_b + s)
                            store(h, s * LANES, v)
                            acc = acc + v * spread(C, at_c + s)
                            store(to_c, to + s * LANES, load(to_c, to + s * LANES) + gt * v)
                        store(ungated, i * wing + k * LANES, acc)
                    for k in range(steps - 1, -1, -1):
                        dt = load(dts, i * wing + k * LANES)
                        du = dt * load(uts, i * wing + k * LANES)
                        gt = load(gts, i * wing + k * LANES)
                        by_a = load(along_a, i * wing + k * LANES)
                        by_b = load(along_b, i * wing + k * LANES)
                        at_b, at_c = (step + k) * b_step + tile, (step + k) * c_step + tile
                        to = k * TILE * LANES
                        for s in range(high):
                            d = load(dh, own + s * LANES) + gt * spread(C, at_c + s)
                            store(to_b, to + s * LANES, load(to_b, to + s * LANES) + d * du)
                            by_b = by_b + d * spread(B, at_b + s)
                            w = d * load(decay, to + s * LANES)
                            store(dh, own + s * LANES, w)
                            x = w * load(before, to + s * LANES)
                            by_a = by_a + x * load(a, own + s * LANES)
                            store(da, own + s * LANES, load(da, own + s * LANES) + x * dt)
                        if is_first[step + k]:
                            dh[own : own + high * LANES] = 0
                        store(along_a, i * wing + k * LANES, by_a)
                        store(along_b, i * wing + k * LANES, by_b)
                for k in range(steps):
                    at = share + (step + k) * states + tile
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
                store_steps(dts[i * wing :], step, steps, channels, first, wide, grad_delta)
                store_steps(uts[i * wing :], step, steps, channels, first, wide, grad_u)
                if gated:
                    store_steps(ungated[i * wing :], step, steps, grad_z_step, first, wide, grad_z)
        if grad_initial_at:
            for i in range(count):
                first = (from_block + i) * LANES
                wide = min(LANES, channels - first)
                scatter(
                    dh[i * size :], first, wide, states, grad_initial[row * channels * states :]
                )
    for i in range(count):
        first = (from_block + i) * LANES
        wide = min(LANES, channels - first)
        scatter(dd[i * LANES :], first, wide, 1, grad_D)
        scatter(da[i * size :], first, wide, states, grad_A)
