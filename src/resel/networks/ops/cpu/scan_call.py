"""The Numba kernels of `cpu_scan` on torch tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from resel.networks.ops._scan_inputs import ScanInputs
from resel.networks.ops.cpu import scan as cpu_scan
from resel.networks.ops.cpu.places import like
from resel.networks.ops.cpu.strides import spaced
from resel.networks.ops.cpu.threads import run_threads, thread_count
from resel.networks.ops.cpu.vectors import LANES


def forward(
    inputs: ScanInputs, initial_state: Tensor | None, keep: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """y, the last state, and the state at the start of each chunk if `keep` is set."""
    u, A = inputs.u, inputs.A
    final = torch.empty(u.shape[0], u.shape[2], A.shape[1], dtype=u.dtype)
    y, saved = output(inputs, keep, initial_state, final)
    return y, final, saved


def output(
    inputs: ScanInputs,
    keep: bool,
    initial_state: Tensor | None = None,
    final: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """y and what `forward` keeps; the last state goes into `final`, if it is wanted."""
    u, A = inputs.u, inputs.A
    rows, length, channels = u.shape
    states = A.shape[1]
    y = torch.empty(u.shape, dtype=u.dtype)
    saved = torch.empty(saved_shape(u, A, keep), dtype=u.dtype)
    given, steps = _settled(inputs)
    initial = None if initial_state is None else initial_state.contiguous()
    found = (y, saved if keep else None, final)
    addresses = [_address(tensor) for tensor in (*given, initial, *found)]
    sizes = (rows, length, channels, states, *steps, like(u))
    threads = thread_count(rows * length * channels * states, -(-channels // LANES))
    run_threads(lambda thread, of: cpu_scan.forward(*addresses, *sizes, thread, of), threads)
    return y, saved


def backward(
    grad_y: Tensor, grad_final: Tensor, inputs: ScanInputs, saved: Tensor
) -> tuple[Tensor, ...]:
    """Gradients of u, delta, A, B, C, D, z and the initial state; of what is absent, anything."""
    u = inputs.u
    grad_z = torch.empty((0, 0, 0) if inputs.z is None else u.shape, dtype=u.dtype)
    grad_initial = torch.empty(grad_final.shape, dtype=u.dtype)
    found = gradients(grad_y, inputs, saved, grad_z, grad_final, grad_initial)
    return *found, grad_z, grad_initial


def gradients(
    grad_y: Tensor,
    inputs: ScanInputs,
    saved: Tensor,
    grad_z: Tensor,
    grad_final: Tensor | None = None,
    grad_initial: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Gradients of u, delta, A, B, C and D; the others are written where they are to go.

    grad_z need not be dense, only evenly spaced.
    """
    u = inputs.u
    rows, length, channels = u.shape
    states = inputs.A.shape[1]
    threads = thread_count(4 * rows * length * channels * states, -(-channels // LANES))
    grad_u, grad_delta = (torch.empty(u.shape, dtype=u.dtype) for _ in range(2))
    grad_A = torch.empty(channels, states, dtype=u.dtype)
    grad_D = torch.empty(channels, dtype=u.dtype)
    share = (threads, rows, length, states)
    of_B, of_C = (torch.empty(share, dtype=u.dtype) for _ in range(2))
    given, steps = _settled(inputs)
    grad_y = grad_y.contiguous()
    grad_final = None if grad_final is None else grad_final.contiguous()
    found = (grad_u, grad_delta, grad_A, of_B, of_C, grad_D, grad_z, grad_initial)
    addresses = [_address(tensor) for tensor in (*given, saved, grad_y, grad_final, *found)]
    sizes = (rows, length, channels, states, *steps, grad_z.stride(1), like(u))
    run_threads(lambda thread, of: cpu_scan.backward(*addresses, *sizes, thread, of), threads)
    grad_B, grad_C = (t[0] if threads == 1 else t.sum(0) for t in (of_B, of_C))
    return grad_u, grad_delta, grad_A, grad_B, grad_C, grad_D


def saved_shape(u: Tensor, A: Tensor, keep: bool) -> tuple[int, ...]:
    """Shape of the states that forward leaves for backward: none unless `keep` is set."""
    rows, length, channels = u.shape
    chunks, blocks = -(-length // cpu_scan.CHUNK), -(-channels // LANES)
    return (rows if keep else 0, chunks, blocks, A.shape[1], LANES)


def _settled(inputs: ScanInputs) -> tuple[list[Tensor | None], tuple[int, ...]]:
    """What the kernels read, dense or evenly spaced, and the strides of steps."""
    u, delta, A, B, C, D, z, is_first = inputs
    (u, u_step), (delta, delta_step), (B, b_step), (C, c_step) = map(spaced, (u, delta, B, C))
    z, z_step = (None, 0) if z is None else spaced(z)
    skip = torch.zeros(u.shape[2], dtype=u.dtype) if D is None else D.contiguous()
    if is_first is None:
        is_first = torch.zeros(u.shape[:2], dtype=torch.bool)
    given = [u, delta, A.contiguous(), B, C, skip, z, is_first.contiguous()]
    return given, (u_step, delta_step, b_step, c_step, z_step)


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()
