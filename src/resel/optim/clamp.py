"""Next values kept inside the slowly moving range of past targets (the released `QValueGuard`)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_DECAY = 0.999


class TargetClamp:
    """Owns the range; the first batch sets it."""

    def __init__(self, device: torch.device, *, shrinks: bool, holds_zero: bool = True) -> None:
        """`shrinks` lets the range follow smaller targets; `holds_zero` puts 0 into the first."""
        self.bounds = torch.tensor([math.nan, math.nan], device=device)
        self._shrinks, self._holds_zero = shrinks, holds_zero

    def __call__(self, value: Tensor, mask: Tensor) -> Tensor:
        """The next values inside the range."""
        if self._holds_zero:
            now = torch.stack(torch.aminmax(torch.where(mask, value, torch.zeros_like(value))))
        else:
            far = torch.full_like(value, math.inf)
            now = torch.stack(
                [torch.where(mask, value, far).min(), torch.where(mask, value, -far).max()]
            )
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
