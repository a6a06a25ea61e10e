"""The Numba kernels of `cpu_scan` on torch tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from resel.networks.ops._scan_inputs import ScanInputs
from resel.networks.ops.cpu import scan as cpu_scan
from resel.networks.ops.cpu.strides import flat_places
from resel.networks.ops.cpu.threads import run_threads, thread_count
from resel.networks.ops.cpu.vectors import LANES


def forward(
    inputs: ScanInputs, initial_state: Tensor | None, keep: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """y, the last state, and the state at the start of each chunk if `keep` is set."""
    u, A = inputs.u, inputs.A
    rows, length, channels = u.shape
    states = A.shape[1]
    initial = u.new_zeros(rows, channels, states) if initial_state is None else initial_state
    y = u.new_empty(u.shape)
    saved = u.new_empty(saved_shape(u, A, keep))
    final = u.new_empty(initial.shape)
    given, strides = _given(inputs)
    arrays = [*given, *(_array(tensor) for tensor in (initial, y, saved, final))]
    threads = thread_count(rows * length * channels * states, -(-channels // LANES))
    sizes = (rows, length, channels, states, strides)
    run_threads(lambda thread, of: cpu_scan.forward(*arrays, *sizes, thread, of), threads)
    return y, final, saved


def backward(
    grad_y: Tensor, grad_final: Tensor, inputs: ScanInputs, saved: Tensor
) -> tuple[Tensor, ...]:
    """Gradients of u, delta, A, B, C, D, z and the initial state; of what is absent, anything."""
    u = inputs.u
    rows, length, channels = u.shape
    states = inputs.A.shape[1]
    threads = thread_count(4 * rows * length * channels * states, -(-channels // LANES))
    grad_u, grad_delta = u.new_empty(u.shape), u.new_empty(u.shape)
    grad_A, grad_D = u.new_empty(channels, states), u.new_empty(channels)
    grad_z = u.new_empty((0, 0, 0) if inputs.z is None else u.shape)
    grad_B = u.new_empty(threads, rows, length, states)
    grad_C = u.new_empty(threads, rows, length, states)
    grad_initial = u.new_empty(rows, channels, states)
    given, strides = _given(inputs)
    found = (grad_u, grad_delta, grad_A, grad_B, grad_C, grad_D, grad_z, grad_initial)
    arrays = [*given, *(_array(tensor) for tensor in (saved, grad_y, grad_final, *found))]
    sizes = (rows, length, channels, states, strides)
    run_threads(lambda thread, of: cpu_scan.backward(*arrays, *sizes, thread, of), threads)
    return (
        grad_u,
        grad_delta,
        grad_A,
        grad_B.sum(0),
        grad_C.sum(0),
        grad_D,
        grad_z,
        grad_initial,
    )


def saved_shape(u: Tensor, A: Tensor, keep: bool) -> tuple[int, ...]:
    """Shape of the states that forward leaves for backward: none unless `keep` is set."""
    rows, length, channels = u.shape
    chunks, blocks = -(-length // cpu_scan.CHUNK), -(-channels // LANES)
    return (rows if keep else 0, chunks, blocks, A.shape[1], LANES)


def _given(inputs: ScanInputs) -> tuple[list[Any], tuple[int, ...]]:
    """What the kernels read, with zeros or nothing for what is absent, and strides of steps."""
    u, delta, A, B, C, D, z, is_first = inputs
    gate = u.new_zeros(0, 0, 0) if z is None else z
    (us, u_step), (deltas, delta_step), (Bs, b_step), (Cs, c_step), (zs, z_step) = (
        flat_places(tensor.detach()) for tensor in (u, delta, B, C, gate)
    )
    skip = u.new_zeros(u.shape[2]) if D is None else D
    flags = u.new_zeros(u.shape[:2], dtype=torch.bool) if is_first is None else is_first
    arrays = [us.numpy(), deltas.numpy(), _array(A), Bs.numpy(), Cs.numpy()]
    arrays += [_array(skip), zs.numpy(), _array(flags)]
    return arrays, (u_step, delta_step, b_step, c_step, z_step)


def _array(tensor: Tensor) -> np.ndarray[Any, Any]:
    """The numbers of a tensor in C order, flat; an output must be contiguous already."""
    return tensor.detach().contiguous().view(-1).numpy()
