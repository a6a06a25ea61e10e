"""Numba kernels of the gated recurrent unit, and of bias and ELU.

Glossary
    N steps of packed sequences (row after row), H hidden units, G networks side by side
    What ends in `_at` is an address (see `places`), 0 for what is not wanted
    segment: the steps from one start to the next; segments share nothing, so threads take them
"""

from __future__ import annotations

from typing import Any

import numpy as np

from resel.networks.ops.cpu.numba_math import exp, inlined, kernel
from resel.networks.ops.cpu.places import array


@kernel
def _add_product(out: Any, vector: Any, matrix: Any) -> None:
    """out += vector @ matrix, four rows of the matrix at a time."""
    rows, columns = matrix.shape
    i = 0
    while i + 4 <= rows:
        a, b, c, d = vector[i], vector[i + 1], vector[i + 2], vector[i + 3]
        m0, m1, m2, m3 = matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]
        for j in range(columns):
            out[j] += a * m0[j] + b * m1[j] + c * m2[j] + d * m3[j]
        i += 4
    while i < rows:
        a = vector[i]
        m0 = matrix[i]
        for j in range(columns):
            out[j] += a * m0[j]
        i += 1


@kernel
def gru_forward(
    from_input: Any,  # (N, 3H): W_ih x + b_ih, gates in torch's order r, z, n
    weight: Any,  # (H, 3H): W_hh transposed
    bias: Any,  # (3H,): b_hh
    bounds: Any,  # (segments + 1,)
    hidden: Any,  # out (N, H)
    gates: Any,  # out (N, 4H): r, z, n and the hidden part of n's argument
    thread: int,
    threads: int,
) -> None:
    size = weight.shape[0]
    one = from_input.dtype.type(1)
    two = from_input.dtype.type(2)
    zeros = np.zeros(size, from_input.dtype)
    product = np.empty(3 * size, from_input.dtype)
    for segment in range(thread, bounds.shape[0] - 1, threads):
        h = zeros
        for n in range(bounds[segment], bounds[segment + 1]):
            product[:] = bias
            _add_product(product, h, weight)
            x = from_input[n]
            r = gates[n, :size]
            z = gates[n, size : 2 * size]
            m = gates[n, 2 * size : 3 * size]
            q = gates[n, 3 * size :]
            new = hidden[n]
            for i in range(size):
                r[i] = one / (one + exp(-(x[i] + product[i])))
            for i in range(size):
                z[i] = one / (one + exp(-(x[size + i] + product[size + i])))
            for i in range(size):
                q[i] = product[2 * size + i]
                m[i] = one - two / (one + exp(two * (x[2 * size + i] + r[i] * q[i])))
            for i in range(size):
                new[i] = m[i] + z[i] * (h[i] - m[i])
            h = new


@kernel
def gru_backward(
    weight: Any,  # (3H, H): W_hh
    bounds: Any,
    hidden: Any,
    gates: Any,
    grad_hidden: Any,  # (N, H)
    grad_input: Any,  # out (N, 3H): gradient of from_input
    grad_product: Any,  # out (N, 3H): gradient of W_hh h + b_hh
    thread: int,
    threads: int,
) -> None:
    size = weight.shape[1]
    one = hidden.dtype.type(1)
    zero = hidden.dtype.type(0)
    zeros = np.zeros(size, hidden.dtype)
    carry = np.empty(size, hidden.dtype)
    d = np.empty(size, hidden.dtype)
    for segment in range(thread, bounds.shape[0] - 1, threads):
        carry[:] = zero
        first = bounds[segment]
        for n in range(bounds[segment + 1] - 1, first - 1, -1):
            h = hidden[n - 1] if n > first else zeros
            r = gates[n, :size]
            z = gates[n, size : 2 * size]
            m = gates[n, 2 * size : 3 * size]
            q = gates[n, 3 * size :]
            g = grad_hidden[n]
            to_input = grad_input[n]
            to_product = grad_product[n]
            for i in range(size):
                d[i] = g[i] + carry[i]
            for i in range(size):
                v = d[i] * (h[i] - m[i]) * z[i] * (one - z[i])
                to_input[size + i] = v
                to_product[size + i] = v
            for i in range(size):
                v = d[i] * (one - z[i]) * (one - m[i] * m[i])
                to_input[2 * size + i] = v
                to_product[2 * size + i] = v * r[i]
            for i in range(size):
                v = to_input[2 * size + i] * q[i] * r[i] * (one - r[i])
                to_input[i] = v
                to_product[i] = v
            for i in range(size):
                carry[i] = d[i] * z[i]
            _add_product(carry, to_product, weight)


@inlined
def _add_and_elu(v: Any, bias: Any, zero: Any, one: Any) -> None:
    """v becomes elu(v + bias), one row of each."""
    for i in range(len(v)):
        a = v[i] + bias[i]
        v[i] = a if a > zero else exp(a) - one


@kernel
def bias_elu(
    x_at: int,  # in and out (G, N, H)
    bias_at: int,  # (G, H)
    parts: int,
    steps: int,
    width: int,
    number: Any,
    thread: int,
    threads: int,
) -> None:
    """x becomes elu(x + bias)."""
    x = array(x_at, (parts, steps, width), number)
    bias = array(bias_at, (parts, width), number)
    zero = x.dtype.type(0)
    one = x.dtype.type(1)
    for row in range(parts * steps * thread // threads, parts * steps * (thread + 1) // threads):
        part = row // steps
        _add_and_elu(x[part, row - part * steps], bias[part], zero, one)


@kernel
def elu_backward(
    y_at: int,  # (G, N, H)
    grad_at: int,  # in and out (G, N, H)
    sums_at: int,  # out (threads, G, H), zero at entry: grad summed over steps
    parts: int,
    steps: int,
    width: int,
    number: Any,
    thread: int,
    threads: int,
) -> None:
    y = array(y_at, (parts, steps, width), number)
    grad = array(grad_at, (parts, steps, width), number)
    sums = array(sums_at, (threads, parts, width), number)
    zero = y.dtype.type(0)
    one = y.dtype.type(1)
    wants_sums = sums_at != 0
    for row in range(parts * steps * thread // threads, parts * steps * (thread + 1) // threads):
        part = row // steps
        v = y[part, row - part * steps]
        d = grad[part, row - part * steps]
        for i in range(width):
            d[i] = d[i] if v[i] > zero else d[i] * (v[i] + one)
        if wants_sums:
            total = sums[thread, part]
            for i in range(width):
                total[i] += d[i]


@kernel
def bias_elu_readout(
    x_at: int,  # in and out (G, N, H), becomes elu(x + bias)
    bias_at: int,  # (G, H)
    weight_at: int,  # (G, H)
    offset_at: int,  # (G,)
    output_at: int,  # out (G, N): weight x + offset
    parts: int,
    steps: int,
    width: int,
    number: Any,
    thread: int,
    threads: int,
) -> None:
    x = array(x_at, (parts, steps, width), number)
    bias = array(bias_at, (parts, width), number)
    weight = array(weight_at, (parts, width), number)
    offset = array(offset_at, (parts,), number)
    output = array(output_at, (parts, steps), number)
    zero = x.dtype.type(0)
    one = x.dtype.type(1)
    for row in range(parts * steps * thread // threads, parts * steps * (thread + 1) // threads):
        part = row // steps
        v = x[part, row - part * steps]
        w = weight[part]
        _add_and_elu(v, bias[part], zero, one)
        value = zero
        for i in range(width):
            value += v[i] * w[i]
        output[part, row - part * steps] = value + offset[part]


@kernel
def readout_backward(
    y_at: int,  # (G, N, H), what bias_elu_readout left in x
    weight_at: int,  # (G, H)
    grad_output_at: int,  # (G, N)
    grad_at: int,  # out (G, N, H): gradient before bias and ELU
    sums_at: int,  # out (2, threads, G, H), zero at entry: gradients of bias and weight
    parts: int,
    steps: int,
    width: int,
    number: Any,
    thread: int,
    threads: int,
) -> None:
    y = array(y_at, (parts, steps, width), number)
    weight = array(weight_at, (parts, width), number)
    grad_output = array(grad_output_at, (parts, steps), number)
    grad = array(grad_at, (parts, steps, width), number)
    sums = array(sums_at, (2, threads, parts, width), number)
    zero = y.dtype.type(0)
    one = y.dtype.type(1)
    wants_sums = sums_at != 0
    for row in range(parts * steps * thread // threads, parts * steps * (thread + 1) // threads):
        part = row // steps
        v = y[part, row - part * steps]
        d = grad[part, row - part * steps]
        w = weight[part]
        g = grad_output[part, row - part * steps]
        for i in range(width):
            a = g * w[i]
            d[i] = a if v[i] > zero else a * (v[i] + one)
        if wants_sums:
            total = sums[0, thread, part]
            for i in range(width):
                total[i] += d[i]
            total = sums[1, thread, part]
            for i in range(width):
                total[i] += g * v[i]
