"""The recurrence of Mamba, with resets: `selective_scan`, on every device one function.

    h_t = exp(delta_t A) h_{t-1} + delta_t B_t u_t        h_{t-1} is dropped where start_t is set
    y_t = (C_t h_t + D u_t) silu(z_t)

The input term is delta B u, as in Mamba's own code, not the zero-order hold the paper prints.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from resel.errors import BadInputError
from resel.networks import _threads
from resel.networks.scan._reference import scan_loop

__all__ = ["scan_loop", "selective_scan"]


def selective_scan(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    start: Tensor | None = None,
    initial_state: Tensor | None = None,
    return_state: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Run the recurrence over a tape.

    u, delta, z are (rows, length, channels), A is (channels, state), B and C are
    (rows, length, state), D is (channels,), start is (rows, length) of bool and initial_state is
    (rows, channels, state). delta is already positive. With return_state the state after the last
    step comes as a second result.
    """
    _check(u, delta, A, B, C, D, z, start, initial_state)
    if u.device.type == "cpu":
        y, state = _FusedScan.apply(u, delta, A, B, C, D, z, start, initial_state)  # type: ignore[no-untyped-call]
    else:
        y, state = scan_loop(u, delta, A, B, C, D, z, start, initial_state)
    return (y, state) if return_state else y


def _check(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    z: Tensor | None,
    start: Tensor | None,
    initial_state: Tensor | None,
) -> None:
    if u.dim() != 3 or A.dim() != 2:
        raise BadInputError(
            "selective_scan takes u of shape (rows, length, channels) and A of shape "
            f"(channels, state), not {tuple(u.shape)} and {tuple(A.shape)}."
        )
    if u.dtype not in (torch.float32, torch.float64):
        raise BadInputError(f"selective_scan takes float32 or float64, not {u.dtype}.")
    rows, length, channels = u.shape
    state = A.shape[1]
    wanted: list[tuple[str, Tensor | None, tuple[int, ...], torch.dtype]] = [
        ("delta", delta, (rows, length, channels), u.dtype),
        ("A", A, (channels, state), u.dtype),
        ("B", B, (rows, length, state), u.dtype),
        ("C", C, (rows, length, state), u.dtype),
        ("D", D, (channels,), u.dtype),
        ("z", z, (rows, length, channels), u.dtype),
        ("start", start, (rows, length), torch.bool),
        ("initial_state", initial_state, (rows, channels, state), u.dtype),
    ]
    for name, tensor, shape, dtype in wanted:
        if tensor is None:
            continue
        if tensor.shape != shape or tensor.dtype != dtype or tensor.device != u.device:
            raise BadInputError(
                f"selective_scan: {name} is {tuple(tensor.shape)} {tensor.dtype} on "
                f"{tensor.device}; with u {tuple(u.shape)} {u.dtype} on {u.device} it must be "
                f"{shape} {dtype} on {u.device}."
            )


class _FusedScan(torch.autograd.Function):
    """Numba kernels behind autograd; absent inputs become empty or zero arrays."""

    @staticmethod
    def forward(
        ctx: Any,
        u: Tensor,
        delta: Tensor,
        A: Tensor,
        B: Tensor,
        C: Tensor,
        D: Tensor | None,
        z: Tensor | None,
        start: Tensor | None,
        initial_state: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        # Numba is slow to import, and not needed on a GPU.
        from resel.networks._vectors import LANES
        from resel.networks.scan import _cpu

        rows, length, channels = u.shape
        states = A.shape[1]
        blocks = -(-channels // LANES)
        chunks = -(-length // _cpu.CHUNK)
        wants_grad = any(ctx.needs_input_grad)
        inputs = (
            u.contiguous(),
            delta.contiguous(),
            A.contiguous(),
            B.contiguous(),
            C.contiguous(),
            u.new_zeros(channels) if D is None else D.contiguous(),
            u.new_zeros(0, 0, 0) if z is None else z.contiguous(),
            _no_start(u) if start is None else start.contiguous(),
        )
        initial = (
            u.new_zeros(rows, channels, states)
            if initial_state is None
            else initial_state.contiguous()
        )
        y = torch.empty_like(inputs[0])
        saved = u.new_empty(rows if wants_grad else 0, chunks, blocks, states, LANES)
        final = torch.empty_like(initial)
        arrays = [_array(t) for t in (*inputs, initial, y, saved, final)]
        groups = _threads.group_count(rows * length * channels * states, blocks)
        sizes = (rows, length, channels, states)
        _threads.run_groups(lambda group, of: _cpu.forward(*arrays, *sizes, group, of), groups)
        ctx.save_for_backward(*inputs, saved)
        ctx.given = (D is not None, z is not None, initial_state is not None)
        return y, final

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor, grad_final: Tensor) -> tuple[Tensor | None, ...]:
        from resel.networks._vectors import LANES
        from resel.networks.scan import _cpu

        *inputs, saved = ctx.saved_tensors
        u, delta, A, _B, _C, D, z, _start = inputs
        rows, length, channels = u.shape
        states = A.shape[1]
        blocks = -(-channels // LANES)
        groups = _threads.group_count(4 * rows * length * channels * states, blocks)
        grad_u, grad_delta, grad_A, grad_D, grad_z = (
            torch.empty_like(t) for t in (u, delta, A, D, z)
        )
        grad_B = u.new_empty(groups, rows, length, states)
        grad_C = u.new_empty(groups, rows, length, states)
        grad_initial = u.new_empty(rows, channels, states)
        arrays = [
            _array(t)
            for t in (
                *inputs,
                saved,
                grad_y.contiguous(),
                grad_final.contiguous(),
                grad_u,
                grad_delta,
                grad_A,
                grad_B,
                grad_C,
                grad_D,
                grad_z,
                grad_initial,
            )
        ]
        sizes = (rows, length, channels, states)
        _threads.run_groups(lambda group, of: _cpu.backward(*arrays, *sizes, group, of), groups)
        has_D, has_z, has_initial = ctx.given
        return (
            grad_u,
            grad_delta,
            grad_A,
            grad_B.sum(0),
            grad_C.sum(0),
            grad_D if has_D else None,
            grad_z if has_z else None,
            None,
            grad_initial if has_initial else None,
        )


def _no_start(u: Tensor) -> Tensor:
    return torch.zeros(u.shape[:2], dtype=torch.bool)


def _array(tensor: Tensor) -> np.ndarray[Any, Any]:
    """The numbers of a contiguous tensor, flat."""
    return tensor.detach().view(-1).numpy()
