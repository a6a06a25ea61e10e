"""Running mean and deviation of observations, saved with the agent."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

_CLIP = 10.0
_EPS = 1e-6


class ObservationNormalizer(nn.Module):
    """Scales observations by statistics of all that was seen; passes them on unchanged when off."""

    mean: Tensor
    deviation: Tensor
    count: Tensor

    def __init__(self, size: int, enabled: bool) -> None:
        super().__init__()
        self.enabled = enabled
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("deviation", torch.ones(size, dtype=torch.float64))

    def update(self, observations: NDArray[np.float32]) -> None:
        """Take in new observations (n, size); merges their moments with the old ones."""
        if not self.enabled or len(observations) == 0:
            return
        new = torch.tensor(observations, dtype=torch.float64, device=self.mean.device)
        n = new.shape[0]
        total = self.count + n
        shift = new.mean(0) - self.mean
        spread = (
            self.deviation.square() * self.count
            + new.var(0, correction=0) * n
            + shift.square() * (self.count * n / total)
        )
        self.mean += shift * (n / total)
        self.deviation.copy_((spread / total).sqrt())
        self.count.copy_(total)

    def forward(self, observation: Tensor) -> Tensor:
        if not self.enabled:
            return observation
        dtype = observation.dtype
        scaled = (observation - self.mean.to(dtype)) / (self.deviation.to(dtype) + _EPS)
        return scaled.clamp(-_CLIP, _CLIP)
