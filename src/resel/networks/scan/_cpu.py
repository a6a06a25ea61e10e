"""The selective scan on a CPU: fused over time, in Numba, forward and backward.

Glossary
    R rows, L length, D channels, S states per channel
    W = _WIDTH channels are worked on together, so that the inner loop is one or two vectors
    K = _CHUNK steps between stored states; backward recomputes the states inside a chunk

Nothing of size (L, D, S) exists. Forward stores the state at the start of each chunk; backward
walks the chunks from the last to the first and rebuilds each into a scratch that fits the cache.
Channel blocks are independent but for dB and dC, which each thread sums on its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from resel.networks._numba_math import exp, kernel

_WIDTH = 64
_CHUNK = 16


@kernel
def forward(
    u: Any,  # (R, L, D)
    delta: Any,  # (R, L, D)
    A: Any,  # (D, S)
    B: Any,  # (R, L, S)
    C: Any,  # (R, L, S)
    D: Any,  # (D,)
    z: Any,  # (R, L, D), or (0, 0, 0) for no gate
    start: Any,  # (R, L)
    initial: Any,  # (R, D, S)
    y: Any,  # out (R, L, D)
    saved: Any,  # out (R, chunks, D / W, S, W), or (0, ...) when no gradient is wanted
    final: Any,  # out (R, D, S)
    group: int,
    groups: int,
) -> None:
    rows, length, channels = u.shape
    states = A.shape[1]
    blocks = (channels + _WIDTH - 1) // _WIDTH
    gated = z.shape[0] > 0
    keep = saved.shape[0] > 0
    zero = u.dtype.type(0)
    one = u.dtype.type(1)
    h = np.empty((states, _WIDTH), u.dtype)
    a = np.zeros((states, _WIDTH), u.dtype)
    dt = np.zeros(_WIDTH, u.dtype)
    du = np.zeros(_WIDTH, u.dtype)
    acc = np.zeros(_WIDTH, u.dtype)
    for block in range(blocks * group // groups, blocks * (group + 1) // groups):
        first = block * _WIDTH
        wide = min(_WIDTH, channels - first)
        a[:, :] = zero
        for c in range(wide):
            for s in range(states):
                a[s, c] = A[first + c, s]
        for row in range(rows):
            h[:, :] = zero
            for c in range(wide):
                for s in range(states):
                    h[s, c] = initial[row, first + c, s]
            for t in range(length):
                if keep and t % _CHUNK == 0:
                    saved[row, t // _CHUNK, block] = h
                if start[row, t]:
                    h[:, :] = zero
                for c in range(wide):
                    dt[c] = delta[row, t, first + c]
                    du[c] = dt[c] * u[row, t, first + c]
                acc[:] = zero
                for s in range(states):
                    b = B[row, t, s]
                    g = C[row, t, s]
                    a_s = a[s]
                    h_s = h[s]
                    for c in range(_WIDTH):
                        h_s[c] = exp(dt[c] * a_s[c]) * h_s[c] + du[c] * b
                    for c in range(_WIDTH):
                        acc[c] += g * h_s[c]
                if gated:
                    for c in range(wide):
                        v = acc[c] + D[first + c] * u[row, t, first + c]
                        gate = z[row, t, first + c]
                        y[row, t, first + c] = v * gate / (one + exp(-gate))
                else:
                    for c in range(wide):
                        y[row, t, first + c] = acc[c] + D[first + c] * u[row, t, first + c]
            for c in range(wide):
                for s in range(states):
                    final[row, first + c, s] = h[s, c]


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
    grad_B: Any,  # out (groups, R, L, S), zero at entry
    grad_C: Any,  # out (groups, R, L, S), zero at entry
    grad_D: Any,  # out (D,)
    grad_z: Any,  # out (R, L, D) or (0, 0, 0)
    grad_initial: Any,  # out (R, D, S)
    group: int,
    groups: int,
) -> None:
    rows, length, channels = u.shape
    states = A.shape[1]
    blocks = (channels + _WIDTH - 1) // _WIDTH
    chunks = (length + _CHUNK - 1) // _CHUNK
    gated = z.shape[0] > 0
    zero = u.dtype.type(0)
    one = u.dtype.type(1)
    a = np.zeros((states, _WIDTH), u.dtype)
    da = np.zeros((states, _WIDTH), u.dtype)
    dd = np.zeros(_WIDTH, u.dtype)
    dh = np.zeros((states, _WIDTH), u.dtype)
    before = np.zeros((_CHUNK, states, _WIDTH), u.dtype)  # state a step starts from, after resets
    decay = np.zeros((_CHUNK, states, _WIDTH), u.dtype)
    dt = np.zeros((_CHUNK, _WIDTH), u.dtype)
    ut = np.zeros((_CHUNK, _WIDTH), u.dtype)
    du = np.zeros((_CHUNK, _WIDTH), u.dtype)
    g = np.zeros((_CHUNK, _WIDTH), u.dtype)
    acc = np.zeros(_WIDTH, u.dtype)
    along_a = np.zeros(_WIDTH, u.dtype)
    along_b = np.zeros(_WIDTH, u.dtype)
    h = np.zeros((states, _WIDTH), u.dtype)
    for block in range(blocks * group // groups, blocks * (group + 1) // groups):
        first = block * _WIDTH
        wide = min(_WIDTH, channels - first)
        a[:, :] = zero
        for c in range(wide):
            for s in range(states):
                a[s, c] = A[first + c, s]
        da[:, :] = zero
        dd[:] = zero
        dt[:, :] = zero
        ut[:, :] = zero
        du[:, :] = zero
        g[:, :] = zero
        for row in range(rows):
            dh[:, :] = zero
            for c in range(wide):
                for s in range(states):
                    dh[s, c] = grad_final[row, first + c, s]
            for chunk in range(chunks - 1, -1, -1):
                begin = chunk * _CHUNK
                steps = min(_CHUNK, length - begin)
                h[:, :] = saved[row, chunk, block]
                for k in range(steps):
                    t = begin + k
                    if start[row, t]:
                        h[:, :] = zero
                    for c in range(wide):
                        dt[k, c] = delta[row, t, first + c]
                        ut[k, c] = u[row, t, first + c]
                        du[k, c] = dt[k, c] * ut[k, c]
                    if gated:
                        for c in range(wide):
                            gate = z[row, t, first + c]
                            g[k, c] = grad_y[row, t, first + c] * gate / (one + exp(-gate))
                    else:
                        for c in range(wide):
                            g[k, c] = grad_y[row, t, first + c]
                    acc[:] = zero
                    dt_k = dt[k]
                    du_k = du[k]
                    g_k = g[k]
                    for s in range(states):
                        b = B[row, t, s]
                        e = C[row, t, s]
                        h_s = h[s]
                        a_s = a[s]
                        decay_s = decay[k, s]
                        before_s = before[k, s]
                        for c in range(_WIDTH):
                            decay_s[c] = exp(dt_k[c] * a_s[c])
                        for c in range(_WIDTH):
                            before_s[c] = h_s[c]
                            h_s[c] = decay_s[c] * h_s[c] + du_k[c] * b
                        total = zero
                        for c in range(_WIDTH):
                            acc[c] += e * h_s[c]
                            total += g_k[c] * h_s[c]
                        grad_C[group, row, t, s] += total
                    if gated:
                        for c in range(wide):
                            gate = z[row, t, first + c]
                            sigmoid = one / (one + exp(-gate))
                            ungated = acc[c] + D[first + c] * ut[k, c]
                            slope = sigmoid * (one + gate * (one - sigmoid))
                            grad_z[row, t, first + c] = grad_y[row, t, first + c] * ungated * slope
                for k in range(steps - 1, -1, -1):
                    t = begin + k
                    along_a[:] = zero
                    along_b[:] = zero
                    dt_k = dt[k]
                    du_k = du[k]
                    g_k = g[k]
                    for s in range(states):
                        b = B[row, t, s]
                        e = C[row, t, s]
                        dh_s = dh[s]
                        a_s = a[s]
                        da_s = da[s]
                        decay_s = decay[k, s]
                        before_s = before[k, s]
                        total = zero
                        for c in range(_WIDTH):
                            d = dh_s[c] + g_k[c] * e
                            dh_s[c] = d
                            total += d * du_k[c]
                        grad_B[group, row, t, s] += total
                        for c in range(_WIDTH):
                            d = dh_s[c]
                            along_b[c] += d * b
                            dh_s[c] = d * decay_s[c]
                        for c in range(_WIDTH):
                            x = dh_s[c] * before_s[c]
                            along_a[c] += x * a_s[c]
                            da_s[c] += x * dt_k[c]
                    if start[row, t]:
                        dh[:, :] = zero
                    for c in range(wide):
                        grad_u[row, t, first + c] = g[k, c] * D[first + c] + along_b[c] * dt[k, c]
                        grad_delta[row, t, first + c] = along_a[c] + along_b[c] * ut[k, c]
                        dd[c] += g[k, c] * ut[k, c]
            for c in range(wide):
                for s in range(states):
                    grad_initial[row, first + c, s] = dh[s, c]
        for c in range(wide):
            grad_D[first + c] = dd[c]
            for s in range(states):
                grad_A[first + c, s] = da[s, c]
