"""Next values kept inside the slowly moving range of past targets (the released `QValueGuard`)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_DECAY = 0.999


class TargetClamp:
    """Owns the range; the first batch sets it."""

    def __init__(self, device: torch.device, *, shrinks: bool) -> None:
        self.bounds = torch.tensor([math.nan, math.nan], device=device)
        self._shrinks = shrinks

    def __call__(self, value: Tensor, mask: Tensor) -> Tensor:
        """The next values inside the range."""
        counted = torch.where(mask, value, torch.zeros_like(value))
        now = torch.stack(torch.aminmax(counted))
        self.bounds = torch.where(self.bounds.isnan(), now, self.bounds)
        return value.clamp(self.bounds[0], self.bounds[1])

    def move(self, y: Tensor, mask: Tensor) -> None:
        """Widen the range to the new targets and let it shrink slowly towards them."""
        low, high = torch.aminmax(torch.where(mask, y, torch.zeros_like(y)))
        wide = torch.stack(
            [torch.minimum(self.bounds[0], low), torch.maximum(self.bounds[1], high)]
        )
        if self._shrinks:
            wide = wide.lerp(torch.stack([low, high]), 1 - _DECAY)
        self.bounds = wide

    def undo(self, before: Tensor, skipped: Tensor) -> None:
        """Back to an earlier range if the step was left out (1, else 0)."""
        self.bounds = torch.where(skipped > 0, before, self.bounds)
