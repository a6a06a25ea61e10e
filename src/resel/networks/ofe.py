"""OFENet: features that are learned by foretelling the next observation, and read by all others.

Ota et al. 2020, Can Increasing Input Dimensionality Improve Deep Reinforcement Learning?
Every layer hands on what it has read beside what it has made of it, so features are larger than
what they are made of.

Glossary
    N steps, U units of a layer
    zs features of an observation, zsa of an observation and an action
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from resel.config import Config, Count, at_least, scaled
from resel.networks.base import CriticNetwork, Network, PolicyNetwork, Shared
from resel.networks.distributions import PolicyDistribution
from resel.networks.encoders import State
from resel.networks.inputs import ContextInputs, Dimensions
from resel.networks.plain import PlainSizes

_EPS, _NEW_SHARE = 1e-3, 0.01


@dataclass(frozen=True)
class OFENetwork(PlainSizes):
    """Sizes of features, policy and critic."""

    head_width: Count = scaled(400)
    """Width of the hidden layers."""
    last_width: Count | None = scaled(300)
    """Width of the last hidden layer; None makes it as wide as the others."""
    feature_units: Count = scaled(240)
    """Units that are added to an observation, and once more to its features and the action."""
    feature_layers: Count = 6
    """Layers that share these units, each time."""
    predicted_size: Count | None = None
    """How many numbers of the next observation the features foretell, from the first on; None
    takes all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "feature_units", "feature_layers", "predicted_size")


class _DenseLayer(nn.Module):
    """x -> [swish(normalised(W x)), x], normalised over the steps of a batch while learning."""

    mean: Tensor
    variance: Tensor

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, units, bias=False)  # normalising would take it off again
        self.scale, self.shift = nn.Parameter(torch.ones(units)), nn.Parameter(torch.zeros(units))
        self.register_buffer("mean", torch.zeros(units))
        self.register_buffer("variance", torch.ones(units))
        self._batch = self.mean, self.variance

    def learn(self, x: Tensor) -> Tensor:  # (N, I) -> (N, U + I)
        """By the mean and variance of this batch."""
        y = self.linear(x)
        mean, variance = y.mean(0), y.var(0, correction=0)
        self._batch = mean.detach(), variance.detach()
        return self._output(y, mean, variance, self.scale, self.shift, x)

    def forward(self, x: Tensor) -> Tensor:  # (..., I) -> (..., U + I)
        """By the running mean and variance; no gradient reaches the weights."""
        y = F.linear(x, self.linear.weight.detach())
        scale, shift = self.scale.detach(), self.shift.detach()
        return self._output(y, self.mean, self.variance, scale, shift, x)

    @staticmethod
    def _output(
        y: Tensor, mean: Tensor, variance: Tensor, scale: Tensor, shift: Tensor, x: Tensor
    ) -> Tensor:
        normal = (y - mean) * (variance + _EPS).rsqrt()
        return torch.cat([F.silu(scale * normal + shift), x], -1)

    @torch.no_grad()
    def take_in(self, skipped: Tensor) -> None:
        """Move the running mean and variance by the last batch, unless its step was left out."""
        for running, new in zip((self.mean, self.variance), self._batch, strict=True):
            running.copy_(torch.where(skipped > 0, running, running.lerp(new, _NEW_SHARE)))


def _layers(inputs: int, sizes: OFENetwork) -> tuple[nn.ModuleList, int]:
    """The layers on so many inputs, and how many features they give."""
    units = max(1, round(sizes.feature_units / sizes.feature_layers))
    layers = [_DenseLayer(inputs + i * units, units) for i in range(sizes.feature_layers)]
    return nn.ModuleList(layers), inputs + sizes.feature_layers * units


class Features(Network):
    """zs and zsa, and from the latter the next observation."""

    def __init__(self, dims: Dimensions, sizes: OFENetwork) -> None:
        super().__init__()
        self.of_observation, self.state_size = _layers(dims.observation, sizes)
        self.of_both, self.both_size = _layers(self.state_size + dims.action, sizes)
        self.predicted_size = min(sizes.predicted_size or dims.observation, dims.observation)
        self.prediction = nn.Linear(self.both_size, self.predicted_size)

    def zs(self, observation: Tensor) -> Tensor:
        """As others read it: not to be learned."""
        return _through(self.of_observation, observation)

    def zsa(self, zs: Tensor, action: Tensor) -> Tensor:
        """As others read it; a gradient goes through to the action."""
        return _through(self.of_both, torch.cat([zs, action], -1))

    def learn(self, observation: Tensor, action: Tensor) -> Tensor:
        """What the next observations (N, predicted) are taken to be, after (N, O) and (N, A)."""
        x = observation
        for layer in self.of_observation:
            assert isinstance(layer, _DenseLayer)
            x = layer.learn(x)
        x = torch.cat([x, action], -1)
        for layer in self.of_both:
            assert isinstance(layer, _DenseLayer)
            x = layer.learn(x)
        predicted: Tensor = self.prediction(x)
        return predicted

    def take_in(self, skipped: Tensor) -> None:
        """After a step: let the running means and variances follow, unless it was left out."""
        for layer in (*self.of_observation, *self.of_both):
            assert isinstance(layer, _DenseLayer)
            layer.take_in(skipped)


def _through(layers: nn.ModuleList, x: Tensor) -> Tensor:
    for layer in layers:
        x = layer(x)
    return x


class OFEPolicy(PolicyNetwork):
    """pi(zs)."""

    def __init__(self, config: Config, dims: Dimensions, features: Features) -> None:
        super().__init__()
        self._features = Shared(features)
        sizes: OFENetwork = config.network
        inside = dims._replace(observation=features.state_size)
        self.inside = sizes.policy(config, inside, deterministic=True)

    def _seen(self, inputs: ContextInputs) -> ContextInputs:
        with torch.no_grad():
            return inputs._replace(observation=self._features.held.zs(inputs.observation))

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> PolicyDistribution:
        policy: PolicyDistribution = self.inside(self._seen(inputs), is_first)
        return policy

    def step(self, inputs: ContextInputs, state: State) -> tuple[PolicyDistribution, State]:
        return self.inside.step(self._seen(inputs), state)


class OFECritic(CriticNetwork):
    """Q(zsa) of so many heads."""

    def __init__(
        self, config: Config, dims: Dimensions, features: Features, n_critics: int
    ) -> None:
        super().__init__()
        self._features = Shared(features)
        sizes: OFENetwork = config.network
        # The action is among the features.
        self.inside = sizes.critic(config, Dimensions(features.both_size, 0, False), n_critics)

    def embed(self, inputs: ContextInputs, is_first: Tensor) -> Tensor:
        with torch.no_grad():
            return self._features.held.zs(inputs.observation)

    def embed_step(self, inputs: ContextInputs, state: State) -> tuple[Tensor, State]:
        return self._features.held.zs(inputs.observation)[:, None], state

    def values(
        self,
        embedded: Tensor,
        action: Tensor | None = None,
        heads: Tensor | None = None,
        *,
        frozen: bool = False,
    ) -> Tensor:
        assert action is not None, "actions are Box ones"
        zsa = self._features.held.zsa(embedded, action)
        return self.inside.values(zsa, None, heads, frozen=frozen)
