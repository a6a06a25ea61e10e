"""One moment of a Mamba block on a CPU: all but its wide projections, without torch's overhead.

With one row there is so little arithmetic that setting up an operation takes longer than doing it.

Glossary
    R rows, D channels, S states per channel, K rank of the step size, T taps
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from resel.networks._numba_math import exp, inlined, kernel
from resel.networks._vectors import LANES, load, splat, store, total
from resel.networks._vectors import exp as exp_vector


@inlined
def _silu(x: Any, one: Any) -> Any:
    return x / (one + exp(-x))


@inlined
def _filter(u: Any, past: Any, weight: Any, bias: Any, new_past: Any, out: Any) -> None:
    """The causal convolution at one moment; past (T - 1, D) is oldest first."""
    channels, taps = weight.shape
    for c in range(channels):
        value = bias[c] + weight[c, 0] * u[c]
        for j in range(1, taps):
            value += weight[c, j] * past[taps - 1 - j, c]
        out[c] = value
    for j in range(taps - 2):
        new_past[j] = past[j + 1]
    if taps > 1:
        new_past[taps - 2] = u


@inlined
def _advance(
    rates: Any, h: Any, B: Any, C: Any, at: int, delta: Any, drive: Any, states: int, new_h: Any
) -> Any:
    """The recurrence of one channel, whose states begin at `at`; the sum of C h."""
    whole = states - states % LANES
    wide_delta = splat(delta)
    wide_drive = splat(drive)
    sums = splat(rates.dtype.type(0))
    for s in range(0, whole, LANES):
        v = exp_vector(wide_delta * load(rates, at + s)) * load(h, at + s)
        v = v + wide_drive * load(B, s)
        store(new_h, at + s, v)
        sums = sums + v * load(C, s)
    value = total(sums)
    for s in range(whole, states):
        new_h[at + s] = exp(delta * rates[at + s]) * h[at + s] + drive * B[s]
        value += new_h[at + s] * C[s]
    return value


@inlined
def _negative_exp(x: Any, out: Any) -> None:
    """-e^x, flat."""
    whole = len(x) - len(x) % LANES
    nought = splat(x.dtype.type(0))
    for i in range(0, whole, LANES):
        store(out, i, nought - exp_vector(load(x, i)))
    for i in range(whole, len(x)):
        out[i] = -exp(x[i])


@kernel
def mixer_step(
    both: Any,  # (R, 2D): input of the scan, and gate
    conv_weight: Any,  # (D, T), or (D, 0) without convolution
    conv_bias: Any,  # (D,), or (0,)
    select_weight: Any,  # (K + 2S, D)
    delta_weight: Any,  # (D, K)
    delta_bias: Any,  # (D,)
    A_log: Any,  # (D S,)
    skip: Any,  # (D,)
    past: Any,  # (R, T - 1, D)
    h: Any,  # (R D S,)
    new_past: Any,  # out, as past
    new_h: Any,  # out, as h
    y: Any,  # out (R, D)
) -> None:
    rows, channels = y.shape
    states = len(A_log) // channels
    rank = delta_weight.shape[1]
    zero = both.dtype.type(0)
    one = both.dtype.type(1)
    u = np.empty(channels, both.dtype)
    selected = np.empty(rank + 2 * states, both.dtype)
    rates = np.empty_like(A_log)
    _negative_exp(A_log, rates)
    for row in range(rows):
        if conv_weight.shape[1] > 0:
            _filter(both[row, :channels], past[row], conv_weight, conv_bias, new_past[row], u)
        else:
            u[:] = both[row, :channels]
        for c in range(channels):
            u[c] = _silu(u[c], one)
        for i in range(len(selected)):
            weight = select_weight[i]
            value = zero
            for c in range(channels):
                value += weight[c] * u[c]
            selected[i] = value
        B = selected[rank : rank + states]
        C = selected[rank + states :]
        old = h[row * channels * states : (row + 1) * channels * states]
        new = new_h[row * channels * states : (row + 1) * channels * states]
        for c in range(channels):
            x = delta_bias[c]
            for i in range(rank):
                x += delta_weight[c, i] * selected[i]
            # softplus, in the form that cannot overflow
            delta = both.dtype.type(max(x, zero) + math.log1p(math.exp(-abs(x))))
            value = _advance(rates, old, B, C, c * states, delta, delta * u[c], states, new)
            y[row, c] = (value + skip[c] * u[c]) * _silu(both[row, channels + c], one)


@kernel
def gelu(x: Any) -> None:
    """x (R, W) becomes x Phi(x)."""
    rows, width = x.shape
    for row in range(rows):
        for i in range(width):
            x[row, i] *= x.dtype.type(0.5 * (1 + math.erf(x[row, i] / math.sqrt(2.0))))
