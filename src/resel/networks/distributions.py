"""Action distributions: Box or Discrete is their question, nobody else's.

Glossary
    A action size
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

_LOWEST_LOG_STD, _HIGHEST_LOG_STD = -20.0, 2.0
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


class Draw(NamedTuple):
    """Actions over which an expectation is taken: one sample, or all there are."""

    action: Tensor | None
    """The sampled action (..., A); None where all actions are meant."""
    log_prob: Tensor
    """Of the sample (...), or of each action (..., A)."""
    weight: Tensor | None
    """The probability of each action (..., A); None for a sample."""

    def expect(self, x: Tensor) -> Tensor:
        """The expectation (...) of x, which has one entry for each of the actions."""
        return x if self.weight is None else (self.weight * x).sum(-1)

    def before_last(self) -> Draw:
        """The same for (rows, length) without the last step of each row."""
        action, log_prob, weight = (None if x is None else x[:, :-1] for x in self)
        assert log_prob is not None
        return Draw(action, log_prob, weight)


@dataclass(frozen=True)
class SquashedGaussian:
    """tanh of a Gaussian: the policy for Box actions. mean and log_std are (..., A)."""

    mean: Tensor
    log_std: Tensor

    @classmethod
    def from_output(cls, output: Tensor, lowest: float = _LOWEST_LOG_STD) -> SquashedGaussian:
        """First half of the head's output is the log deviation, second half the mean."""
        log_std, mean = output.chunk(2, -1)
        return cls(mean, log_std.clamp(lowest, _HIGHEST_LOG_STD))

    def sample(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """An action (..., A) and its log density (...), differentiable in the parameters."""
        noise = _normal_like(self.mean, generator)
        raw = self.mean + self.log_std.exp() * noise
        log_normal = -0.5 * noise.square() - self.log_std - _HALF_LOG_TWO_PI
        log_slope = 2 * (math.log(2) - raw - F.softplus(-2 * raw))  # log(1 - tanh(raw)^2)
        return torch.tanh(raw), (log_normal - log_slope).sum(-1)

    def draw(self, generator: torch.Generator) -> Draw:
        """One sampled action for an expectation."""
        return Draw(*self.sample(generator), None)

    def choose(self, generator: torch.Generator) -> Tensor:
        """An action to explore with, as it is stored. (..., A)"""
        return self.sample(generator)[0]

    def explore(self, noise: Tensor) -> Tensor:
        """The action that this standard normal noise leads to. (..., A)"""
        return torch.tanh(self.mean + self.log_std.exp() * noise)

    def mode(self) -> Tensor:
        """The deterministic action."""
        return torch.tanh(self.mean)

    def broken(self) -> Tensor:
        """Whether anything is NaN; on the device."""
        return (self.mean + self.log_std).isnan().any()

    def detach(self) -> SquashedGaussian:
        """The same without gradients."""
        return SquashedGaussian(self.mean.detach(), self.log_std.detach())


@dataclass(frozen=True)
class Categorical:
    """The policy for Discrete actions. log_probs is (..., A) and normalised."""

    log_probs: Tensor

    @classmethod
    def from_output(cls, output: Tensor, floor: float = 0.0) -> Categorical:
        """The head's output as logits; `floor` is added to each probability, their sum stays 1."""
        log_probs = F.log_softmax(output, -1)
        if floor:
            log_probs = ((log_probs.exp() + floor) / (1 + floor * output.shape[-1])).log()
        return cls(log_probs)

    def sample(self, generator: torch.Generator) -> Tensor:
        """An action index (...)."""
        probs = self.log_probs.exp()
        flat = torch.multinomial(probs.flatten(0, -2), 1, generator=generator)
        return flat.view(probs.shape[:-1])

    def draw(self, generator: torch.Generator) -> Draw:
        """All actions with their probabilities: the expectation is exact."""
        return Draw(None, self.log_probs, self.log_probs.exp())

    def choose(self, generator: torch.Generator) -> Tensor:
        """An action to explore with, as it is stored. (..., 1)"""
        return self.sample(generator)[..., None].float()

    def mode(self) -> Tensor:
        """The most probable action's index, as it is stored. (..., 1)"""
        return self.log_probs.argmax(-1)[..., None].float()

    def log_prob(self, action: Tensor) -> Tensor:
        """Of the actions that were taken, as indices (...)."""
        return self.log_probs.gather(-1, action[..., None]).squeeze(-1)

    def entropy(self) -> Tensor:
        """(...)"""
        return -(self.log_probs.exp() * self.log_probs).sum(-1)

    def broken(self) -> Tensor:
        """Whether anything is NaN; on the device."""
        return self.log_probs.isnan().any()

    def detach(self) -> Categorical:
        """The same without gradients."""
        return Categorical(self.log_probs.detach())


@dataclass(frozen=True)
class Deterministic:
    """One Box action, explored around with Gaussian noise. action is (..., A) in [-1, 1]."""

    action: Tensor
    noise: float
    """Standard deviation while exploring."""

    @classmethod
    def from_output(cls, output: Tensor, noise: float) -> Deterministic:
        """The head's output through tanh."""
        return cls(torch.tanh(output), noise)

    def smoothed(self, std: float, clip: float, generator: torch.Generator) -> Tensor:
        """The action with noise that is clipped, and the sum once more. (..., A)"""
        noise = (std * _normal_like(self.action, generator)).clamp(-clip, clip)
        return (self.action + noise).clamp(-1, 1)

    def choose(self, generator: torch.Generator) -> Tensor:
        """An action to explore with, as it is stored. (..., A)"""
        return self.smoothed(self.noise, math.inf, generator)

    def explore(self, noise: Tensor) -> Tensor:
        """The action that this standard normal noise leads to. (..., A)"""
        return (self.action + self.noise * noise).clamp(-1, 1)

    def mode(self) -> Tensor:
        """The deterministic action."""
        return self.action

    def broken(self) -> Tensor:
        """Whether anything is NaN; on the device."""
        return self.action.isnan().any()

    def detach(self) -> Deterministic:
        """The same without gradients."""
        return Deterministic(self.action.detach(), self.noise)


@dataclass(frozen=True)
class Gaussian:
    """Box actions without a bound, which the environment cuts. mean and log_std are (..., A)."""

    mean: Tensor
    log_std: Tensor

    def log_prob(self, action: Tensor) -> Tensor:
        """Of the actions that were taken, before they were cut. (...)"""
        noise = (action - self.mean) * (-self.log_std).exp()
        return (-0.5 * noise.square() - self.log_std - _HALF_LOG_TWO_PI).sum(-1)

    def entropy(self) -> Tensor:
        """(...)"""
        return (self.log_std + 0.5 + _HALF_LOG_TWO_PI).sum(-1)

    def choose(self, generator: torch.Generator) -> Tensor:
        """An action to explore with, as it is stored. (..., A)"""
        return self.explore(_normal_like(self.mean, generator))

    def explore(self, noise: Tensor) -> Tensor:
        """The action that this standard normal noise leads to. (..., A)"""
        return self.mean + self.log_std.exp() * noise

    def mode(self) -> Tensor:
        """The deterministic action."""
        return self.mean

    def broken(self) -> Tensor:
        """Whether anything is NaN; on the device."""
        return (self.mean + self.log_std).isnan().any()

    def detach(self) -> Gaussian:
        """The same without gradients."""
        return Gaussian(self.mean.detach(), self.log_std.detach())


StochasticPolicy = SquashedGaussian | Categorical
"""Those of maximum-entropy methods: they have a probability for every action."""
LikelihoodPolicy = Gaussian | Categorical
"""Those of on-policy methods: they tell how probable an action was that has been taken."""
PolicyDistribution = StochasticPolicy | Deterministic | Gaussian


def _normal_like(x: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)


def distribution(
    output: Tensor, discrete: bool, floor: float = 0.0, log_std_min: float = _LOWEST_LOG_STD
) -> StochasticPolicy:
    """The policy that the output of a head stands for."""
    if discrete:
        return Categorical.from_output(output, floor)
    return SquashedGaussian.from_output(output, log_std_min)
