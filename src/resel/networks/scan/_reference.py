"""The selective scan as a plain loop: slow, obviously correct, on any device.

Autograd differentiates it, so it is the oracle of the tests for outputs and gradients alike.
"""

from __future__ import annotations

import torch
from torch import Tensor


def scan_loop(
    u: Tensor,  # (R, L, D)
    delta: Tensor,  # (R, L, D)
    A: Tensor,  # (D, S)
    B: Tensor,  # (R, L, S)
    C: Tensor,  # (R, L, S)
    D: Tensor | None,  # (D,)
    z: Tensor | None,  # (R, L, D)
    start: Tensor | None,  # (R, L)
    initial_state: Tensor | None,  # (R, D, S)
) -> tuple[Tensor, Tensor]:
    """y (R, L, D) and the state after the last step (R, D, S)."""
    rows, length, channels = u.shape
    h = u.new_zeros(rows, channels, A.shape[1]) if initial_state is None else initial_state
    outputs = []
    for t in range(length):
        if start is not None:
            h = torch.where(start[:, t, None, None], torch.zeros_like(h), h)
        decay = torch.exp(delta[:, t, :, None] * A)  # (R, D, S)
        drive = (delta[:, t] * u[:, t])[:, :, None] * B[:, t, None, :]  # (R, D, S)
        h = decay * h + drive
        outputs.append((h * C[:, t, None, :]).sum(-1))  # (R, D)
    y = torch.stack(outputs, 1) if outputs else torch.zeros_like(u)
    if D is not None:
        y = y + D * u
    if z is not None:
        y = y * torch.nn.functional.silu(z)
    return y, h
