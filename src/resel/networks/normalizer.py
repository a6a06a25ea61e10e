"""Running scales of observations and rewards, saved with the agent."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from resel.networks.inputs import Dimensions

_CLIP = 10.0
_EPS = 1e-6


class _Moments(nn.Module):
    """Mean and deviation of all that was seen; takes nothing in when off."""

    mean: Tensor
    deviation: Tensor
    count: Tensor

    def __init__(self, size: int, enabled: bool) -> None:
        super().__init__()
        self.enabled = enabled
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("deviation", torch.ones(size, dtype=torch.float64))

    def update(self, values: NDArray[Any]) -> None:
        """Take in new values (n, size); merges their moments with the old ones."""
        if not self.enabled or len(values) == 0:
            return
        new = torch.tensor(values, dtype=torch.float64, device=self.mean.device)
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


class ObservationNormalizer(_Moments):
    """Scales observations by what was seen of them; passes them on unchanged when off."""

    divisor: Tensor | None
    apart: Tensor | None

    def __init__(
        self, size: int, enabled: bool, dims: Dimensions | None = None, *, sees: bool = False
    ) -> None:
        """With `dims`, observations are given as they are stored, and images are divided by the
        most a pixel can be. `sees` says that they are read as images: then no other scale is put
        on them. As vectors they are scaled as all else is, if it is."""
        super().__init__(size, enabled)
        self._dims = dims
        divisor, apart = torch.ones(size), torch.zeros(size, dtype=torch.bool)
        images = dims.images if dims is not None and (sees or not enabled) else ()
        for image in images:
            divisor[image.begin : image.begin + image.size] = image.scale
            apart[image.begin : image.begin + image.size] = True
        scaled = any(image.scale != 1 for image in images)
        self.register_buffer("divisor", divisor if scaled else None, persistent=False)
        self.register_buffer("apart", apart if enabled and images else None, persistent=False)

    def update(self, values: NDArray[Any]) -> None:
        """Take in new observations (n, size), as they are stored."""
        if self.enabled and self._dims is not None:
            values = self._dims.numbers(torch.tensor(values)).numpy()
        super().update(values)

    def forward(self, observation: Tensor) -> Tensor:
        if self._dims is not None:
            observation = self._dims.numbers(observation)
        dtype = observation.dtype
        if self.divisor is not None:
            observation = observation / self.divisor.to(dtype)
        if not self.enabled:
            return observation
        scaled = (observation - self.mean.to(dtype)) / (self.deviation.to(dtype) + _EPS)
        scaled = scaled.clamp(-_CLIP, _CLIP)
        return scaled if self.apart is None else torch.where(self.apart, observation, scaled)

    def limits(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The lowest and the highest observation that is not cut."""
        mean, reach = self.mean, _CLIP * (self.deviation + _EPS)
        if self.apart is not None:  # images are not cut
            reach = reach.masked_fill(self.apart, torch.inf)
        low, high = ((mean + end * reach).float().cpu().numpy() for end in (-1, 1))
        return low, high


class RewardScale(_Moments):
    """Divides rewards by the deviation of discounted returns, so that values are of order one.

    The returns are those collected so far, sum_k gamma^k r_{t-k}. Nothing is shifted: a mean taken
    off would change what an episode's end is worth.
    """

    def __init__(self, gamma: float, enabled: bool) -> None:
        super().__init__(1, enabled)
        self._gamma = gamma

    def add_episode(self, rewards: NDArray[np.float32]) -> None:
        """Take in the rewards of a whole episode."""
        if not self.enabled:
            return
        returns, total = np.empty((len(rewards), 1), np.float32), 0.0
        for t, reward in enumerate(rewards.tolist()):
            total = self._gamma * total + reward
            returns[t] = total
        self.update(returns)

    def forward(self, reward: Tensor) -> Tensor:
        if not self.enabled:
            return reward
        deviation = self.deviation.to(reward.dtype)
        return reward / torch.where(deviation > _EPS, deviation, torch.ones_like(deviation))
