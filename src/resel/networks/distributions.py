"""What sits on top of the context: fully connected layers and action distributions.

Glossary
    A action size
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from resel.networks.ops.activation import dense_elu

_LOG_STD_RANGE = (-20.0, 2.0)
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def xavier_linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer with Xavier-uniform weights and zero bias."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class DenseELU(nn.Module):
    """elu(W x + b), with Xavier-uniform weights and zero bias."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = xavier_linear(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return dense_elu(x, self.linear.weight, self.linear.bias)


def hidden_layers(inputs: int, width: int, layers: int) -> nn.Sequential:
    """Fully connected layers, each followed by ELU."""
    return nn.Sequential(*(DenseELU(width if i else inputs, width) for i in range(layers)))


def mlp(inputs: int, width: int, layers: int, outputs: int) -> nn.Sequential:
    """Hidden layers with ELU and a linear output."""
    return nn.Sequential(hidden_layers(inputs, width, layers), xavier_linear(width, outputs))


@dataclass(frozen=True)
class SquashedGaussian:
    """tanh of a Gaussian: the policy for Box actions. mean and log_std are (..., A)."""

    mean: Tensor
    log_std: Tensor

    @classmethod
    def from_output(cls, output: Tensor) -> SquashedGaussian:
        """First half of the head's output is the log deviation, second half the mean."""
        log_std, mean = output.chunk(2, -1)
        return cls(mean, log_std.clamp(*_LOG_STD_RANGE))

    def sample(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """An action (..., A) and its log density (...), differentiable in the parameters."""
        noise = torch.randn(
            self.mean.shape,
            generator=generator,
            device=self.mean.device,
            dtype=self.mean.dtype,
        )
        raw = self.mean + self.log_std.exp() * noise
        log_normal = -0.5 * noise.square() - self.log_std - _HALF_LOG_TWO_PI
        log_slope = 2 * (math.log(2) - raw - F.softplus(-2 * raw))  # log(1 - tanh(raw)^2)
        return torch.tanh(raw), (log_normal - log_slope).sum(-1)

    def mode(self) -> Tensor:
        """The deterministic action."""
        return torch.tanh(self.mean)

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

    def mode(self) -> Tensor:
        """The most probable action's index (...)."""
        return self.log_probs.argmax(-1)

    def detach(self) -> Categorical:
        """The same without gradients."""
        return Categorical(self.log_probs.detach())


PolicyDistribution = SquashedGaussian | Categorical
