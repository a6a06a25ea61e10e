"""Batch normalisation over packed sequences.

While learning, features are scaled by their mean and variance over all real steps of the batch, and
gradients flow through both. Padding does not count, so the layout of a batch changes nothing. One
step at a time, and in evaluation mode, the running statistics are used.

A pass alone changes nothing: statistics are kept only after a step of the optimiser that was taken
(`keep`), so that a batch that is not finite cannot spoil them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_MOMENTUM, _EPS = 0.1, 1e-5


class BatchNorm(nn.Module):
    """(rows, length, features) -> the same; Ioffe and Szegedy 2015, Algorithms 1 and 2."""

    running_mean: Tensor
    running_variance: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_variance", torch.ones(features))
        self._seen: tuple[Tensor, Tensor] | None = None  # running statistics after the last pass

    def forward(self, x: Tensor, is_first: Tensor) -> Tensor:
        if not self.training:
            return self.step(x)
        real = ~_padding(is_first)
        flat = x[real]  # (steps, features)
        if len(flat) < 2:  # nothing to take a variance of
            return self.step(x)
        self._seen = (self.running_mean.clone(), self.running_variance.clone())
        scaled = F.batch_norm(flat, *self._seen, self.weight, self.bias, True, _MOMENTUM, _EPS)
        return torch.zeros_like(x).masked_scatter(real[..., None], scaled)

    def step(self, x: Tensor) -> Tensor:
        """By the running statistics, whatever else is in the batch."""
        scale = torch.rsqrt(self.running_variance + _EPS) * self.weight
        return (x - self.running_mean) * scale + self.bias

    @torch.no_grad()
    def keep(self, skipped: Tensor) -> None:
        """Let the running statistics follow the last pass, unless its step was left out."""
        if self._seen is None:
            return
        for running, seen in zip(
            (self.running_mean, self.running_variance), self._seen, strict=True
        ):
            running.copy_(torch.where(skipped > 0, running, seen))
        self._seen = None


def batch_norms(network: nn.Module) -> list[BatchNorm]:
    """All of them inside a network."""
    return [module for module in network.modules() if isinstance(module, BatchNorm)]


@contextmanager
def by_running_statistics(network: nn.Module) -> Iterator[None]:
    """The network as it acts: no step sees what else is in the batch."""
    network.eval()
    try:
        yield
    finally:
        network.train()


def _padding(is_first: Tensor) -> Tensor:
    """Where a batch holds nothing (rows, length).

    A trajectory has two steps at least, the last observation included; padding is all starts.
    """
    first = is_first.clone()
    first[:, 0] = True
    last = torch.ones_like(first)  # whether the next step is of another trajectory
    last[:, :-1] = first[:, 1:]
    return first & last
