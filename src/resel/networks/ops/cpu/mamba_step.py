"""One moment of a Mamba block on a CPU, in one call.

With one row there is so little arithmetic that setting up an operation of torch takes longer than
doing it.

Glossary
    R rows, W width, D channels, S states per channel, K rank of the step size, T taps
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from resel.networks.ops.cpu.numba_math import exp, inlined, kernel
from resel.networks.ops.cpu.vectors import LANES, load, splat, store, total
from resel.networks.ops.cpu.vectors import exp as exp_vector


def _flat(array: Any) -> Any:
    assert array.flags.c_contiguous, "a copy would not follow the weights"
    return array.reshape(-1)


class BlockWeights(NamedTuple):
    """The weights of a block as arrays, each as torch has it, the flat ones in C order."""

    norm: Any  # (W,)
    inner: Any  # (2D W,)
    conv: Any  # (D, T), or (D, 0) without convolution
    conv_bias: Any  # (D,), or (0,)
    select: Any  # ((K + 2S) D,)
    delta: Any  # (D K,)
    delta_bias: Any  # (D,)
    A_log: Any  # (D S,)
    skip: Any  # (D,)
    outer: Any  # (W D,)
    up: Any  # (W W,), and of the next five (W,); all (0,) without a feed-forward part
    up_bias: Any
    down: Any
    down_bias: Any
    last_norm: Any
    last_bias: Any

    @classmethod
    def of(cls, arrays: Sequence[Any]) -> BlockWeights:
        """From arrays in their own shapes, not copied."""
        named = zip(cls._fields, arrays, strict=True)
        flat = {name: array if name == "conv" else _flat(array) for name, array in named}
        return cls(**flat)


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


@inlined
def _dots(weight: Any, i: int, x: Any, at: int, inputs: int, sums: Any) -> None:
    """Products of four lines of `weight` from line i on with x from `at` on."""
    whole = inputs - inputs % LANES
    nought = splat(x.dtype.type(0))
    a = b = c = d = nought
    line = i * inputs
    for s in range(0, whole, LANES):
        v = load(x, at + s)
        a = a + load(weight, line + s) * v
        b = b + load(weight, line + inputs + s) * v
        c = c + load(weight, line + 2 * inputs + s) * v
        d = d + load(weight, line + 3 * inputs + s) * v
    sums[0] = total(a)
    sums[1] = total(b)
    sums[2] = total(c)
    sums[3] = total(d)
    for s in range(whole, inputs):
        for k in range(4):
            sums[k] += weight[line + k * inputs + s] * x[at + s]


@inlined
def _project(weight: Any, x: Any, rows: int, inputs: int, outputs: int, out: Any) -> None:
    """out (R outputs,) = x (R inputs,) times the transpose of weight; each line is read once."""
    whole = outputs - outputs % 4
    sums = np.empty(4, x.dtype)
    for i in range(0, whole, 4):
        for row in range(rows):
            _dots(weight, i, x, row * inputs, inputs, sums)
            for k in range(4):
                out[row * outputs + i + k] = sums[k]
    for i in range(whole, outputs):
        for row in range(rows):
            value = x.dtype.type(0)
            for s in range(inputs):
                value += weight[i * inputs + s] * x[row * inputs + s]
            out[row * outputs + i] = value


@inlined
def _inverse_spread(x: Any, at: int, width: int, mean: Any, eps: float) -> Any:
    """1 / sqrt(mean of (x - mean)^2 + eps) over the row that begins at `at`."""
    squares = x.dtype.type(0)
    for c in range(width):
        squares += (x[at + c] - mean) * (x[at + c] - mean)
    return x.dtype.type(1 / math.sqrt(squares / width + eps))


@inlined
def _rms_norm(x: Any, weight: Any, rows: int, eps: float, out: Any) -> None:
    width = len(weight)
    for row in range(rows):
        at = row * width
        scale = _inverse_spread(x, at, width, x.dtype.type(0), eps)
        for c in range(width):
            out[at + c] = x[at + c] * scale * weight[c]


@inlined
def _layer_norm(x: Any, weight: Any, bias: Any, rows: int, eps: float) -> None:
    """In place."""
    width = len(weight)
    for row in range(rows):
        at = row * width
        mean = x.dtype.type(0)
        for c in range(width):
            mean += x[at + c]
        mean /= x.dtype.type(width)
        scale = _inverse_spread(x, at, width, mean, eps)
        for c in range(width):
            x[at + c] = (x[at + c] - mean) * scale * weight[c] + bias[c]


@inlined
def _mix(
    both: Any, w: Any, rates: Any, row: int, past: Any, h: Any, new_past: Any, new_h: Any, y: Any
) -> None:
    """Convolution, selective scan and gate of one row; both (R 2D,), h (R D S,), y (R D,)."""
    channels = len(w.skip)
    states = len(w.A_log) // channels
    rank = len(w.delta) // channels
    zero = both.dtype.type(0)
    one = both.dtype.type(1)
    gate = both[row * 2 * channels + channels :]
    u = np.empty(channels, both.dtype)
    if w.conv.shape[1] > 0:
        first = row * 2 * channels
        _filter(both[first : first + channels], past[row], w.conv, w.conv_bias, new_past[row], u)
        for c in range(channels):
            u[c] = _silu(u[c], one)
    else:
        u[:] = both[row * 2 * channels : row * 2 * channels + channels]
    selected = np.empty(rank + 2 * states, both.dtype)
    _project(w.select, u, 1, channels, len(selected), selected)
    B = selected[rank : rank + states]
    C = selected[rank + states :]
    old = h[row * channels * states : (row + 1) * channels * states]
    new = new_h[row * channels * states : (row + 1) * channels * states]
    for c in range(channels):
        x = w.delta_bias[c]
        for i in range(rank):
            x += w.delta[c * rank + i] * selected[i]
        # softplus, in the form that cannot overflow
        delta = both.dtype.type(max(x, zero) + math.log1p(math.exp(-abs(x))))
        value = _advance(rates, old, B, C, c * states, delta, delta * u[c], states, new)
        y[row * channels + c] = (value + w.skip[c] * u[c]) * _silu(gate[c], one)


@inlined
def _feed_forward(w: Any, rows: int, eps: float, x: Any) -> None:
    """In place; with the exact GELU, z Phi(z)."""
    width = len(w.norm)
    hidden = np.empty_like(x)
    _project(w.up, x, rows, width, width, hidden)
    for row in range(rows):
        for c in range(width):
            z = hidden[row * width + c] + w.up_bias[c]
            hidden[row * width + c] = z * x.dtype.type(0.5 * (1 + math.erf(z / math.sqrt(2.0))))
    moved = np.empty_like(x)
    _project(w.down, hidden, rows, width, width, moved)
    for row in range(rows):
        for c in range(width):
            x[row * width + c] += moved[row * width + c] + w.down_bias[c]
    _layer_norm(x, w.last_norm, w.last_bias, rows, eps)


@kernel
def block_step(
    w: Any,
    eps: float,
    x: Any,  # (R W,)
    past: Any,  # (R, T - 1, D)
    h: Any,  # (R D S,)
    new_past: Any,  # out, as past
    new_h: Any,  # out, as h
    out: Any,  # (R W,)
) -> None:
    width = len(w.norm)
    channels = len(w.skip)
    rows = len(x) // width
    rates = np.empty_like(w.A_log)
    _negative_exp(w.A_log, rates)
    normed = np.empty_like(x)
    _rms_norm(x, w.norm, rows, eps, normed)
    both = np.empty(rows * 2 * channels, x.dtype)
    _project(w.inner, normed, rows, width, 2 * channels, both)
    y = np.empty(rows * channels, x.dtype)
    for row in range(rows):
        _mix(both, w, rates, row, past, h, new_past, new_h, y)
    _project(w.outer, y, rows, channels, width, out)
    for i in range(len(x)):
        out[i] += x[i]
    if len(w.up) > 0:
        _feed_forward(w, rows, eps, out)
