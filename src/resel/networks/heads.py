"""What sits on top of the context: policy MLP, critic ensemble and action distributions.

Glossary
    N places, E critic heads, A action size, H hidden width
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from resel.networks.activation import bias_elu

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
        y = x.flatten(0, -2) @ self.linear.weight.t()  # (N, outputs)
        return bias_elu(y[None], self.linear.bias[None]).view(*x.shape[:-1], -1)


def hidden_layers(inputs: int, width: int, layers: int) -> nn.Sequential:
    """Fully connected layers, each followed by ELU."""
    return nn.Sequential(*(DenseELU(width if i else inputs, width) for i in range(layers)))


def mlp(inputs: int, width: int, layers: int, outputs: int) -> nn.Sequential:
    """Hidden layers with ELU and a linear output."""
    return nn.Sequential(hidden_layers(inputs, width, layers), xavier_linear(width, outputs))


class EnsembleMLP(nn.Module):
    """E independent MLPs on the same input, evaluated together.

    The first layer is one matrix product for all heads; later ones are batched over the heads.
    """

    def __init__(self, heads: int, inputs: int, width: int, layers: int, outputs: int) -> None:
        super().__init__()
        sizes = [inputs] + [width] * layers + [outputs]
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for fan_in, fan_out in itertools.pairwise(sizes):
            bound = math.sqrt(6 / (fan_in + fan_out))  # Xavier, for each head on its own
            self.weights.append(torch.empty(heads, fan_out, fan_in).uniform_(-bound, bound))
            self.biases.append(torch.zeros(heads, fan_out))

    def forward(
        self, x: Tensor, heads: Tensor | None = None, *, frozen: bool = False
    ) -> Tensor:  # (N, inputs) -> (E, N, outputs)
        """Values of all heads or of those named; `frozen` keeps gradients off the weights."""
        weights: list[Tensor] = list(self.weights)
        biases: list[Tensor] = list(self.biases)
        if frozen:
            weights = [w.detach() for w in weights]
            biases = [b.detach() for b in biases]
        if heads is not None:
            weights = [w.index_select(0, heads) for w in weights]
            biases = [b.index_select(0, heads) for b in biases]
        count = weights[0].shape[0]
        y = x @ weights[0].flatten(0, 1).t()  # (N, E * H)
        h = bias_elu(y.view(x.shape[0], count, -1).transpose(0, 1), biases[0])  # (E, N, H)
        for w, b in zip(weights[1:-1], biases[1:-1], strict=True):
            h = bias_elu(torch.bmm(h, w.transpose(1, 2)), b)
        return torch.baddbmm(biases[-1][:, None], h, weights[-1].transpose(1, 2))


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
    def from_output(cls, output: Tensor) -> Categorical:
        """The head's output as logits."""
        return cls(F.log_softmax(output, -1))

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
