"""Dropout whose chance is the learner's, so that a run goes on exactly."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Dropout(nn.Module):
    """Sets a share of numbers to zero in passes that are learned from, and scales up the others.

    Nothing happens without gradients, as in acting and in targets, nor without a generator.
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share
        self.generator: torch.Generator | None = None

    @property
    def active(self) -> bool:
        """Whether anything is set to zero now."""
        learns = self.training and torch.is_grad_enabled()
        return learns and self.share > 0 and self.generator is not None

    def forward(self, x: Tensor) -> Tensor:
        if not self.active:
            return x
        drawn = torch.rand(x.shape, generator=self.generator, device=x.device, dtype=x.dtype)
        return x * (drawn >= self.share) / (1 - self.share)


def dropouts(network: nn.Module) -> list[Dropout]:
    """All of them inside a network that set anything to zero."""
    found = [module for module in network.modules() if isinstance(module, Dropout)]
    return [module for module in found if module.share > 0]
