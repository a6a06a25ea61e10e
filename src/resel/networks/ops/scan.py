"""The recurrence of Mamba, with resets: `selective_scan`, on every device one function.

    h_t = exp(delta_t A) h_{t-1} + delta_t B_t u_t        h_{t-1} is dropped where is_first_t is set
    y_t = (C_t h_t + D u_t) silu(z_t)

The input term is delta B u, as in Mamba's own code, not the zero-order hold the paper prints.
"""

from __future__ import annotations

import torch
from torch import Tensor

from resel.errors import BadInputError
from resel.networks.ops import _scan_operator as scan_operator

__all__ = ["selective_scan"]


def selective_scan(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    is_first: Tensor | None = None,
    initial_state: Tensor | None = None,
    return_state: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Run the recurrence over a packed sequence.

    u, delta, z are (rows, length, channels), A is (channels, state), B and C are
    (rows, length, state), D is (channels,), is_first is (rows, length) of bool and initial_state is
    (rows, channels, state). delta is already positive. With return_state the state after the last
    step comes as a second result.
    """
    _check(u, delta, A, B, C, D, z, is_first, initial_state)
    inputs = (u, delta, A, B, C, D, z, is_first, initial_state)
    keep = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in inputs)
    y, state, _ = scan_operator.selective_scan(*inputs, keep)
    return (y, state) if return_state else y


def _check(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    z: Tensor | None,
    is_first: Tensor | None,
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
        ("is_first", is_first, (rows, length), torch.bool),
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
