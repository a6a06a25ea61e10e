"""Policy and critic without a memory: they read o_t alone (and the critic a_t)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from resel.config import Config, Count, at_least, between, one_of, only_for, scaled
from resel.networks.base import CriticNetwork, PolicyNetwork
from resel.networks.distributions import Deterministic, PolicyDistribution, distribution
from resel.networks.encoders import State
from resel.networks.heads import (
    CRITIC_BOUND,
    POLICY_BOUND,
    ActivatedHeads,
    Activation,
    Initialisation,
    activated_mlp,
)
from resel.networks.images import ImageSizes
from resel.networks.inputs import ContextInputs, Dimensions


@dataclass(frozen=True)
class PlainSizes:
    """Sizes of policy and critic."""

    head_width: Count = scaled(256)
    """Width of the hidden layers."""
    head_layers: Count = 2
    """Hidden layers."""
    last_width: Count | None = scaled(None)
    """Width of the last hidden layer; None makes it as wide as the others."""
    critic_width: Count | None = scaled(None)
    """Width of the critic's hidden layers; None takes the policy's sizes."""
    critic_layers: Count | None = None
    """Hidden layers of the critic; None takes the policy's."""
    activation: Activation = "relu"
    """What follows a hidden layer: relu, leaky_relu or elu."""
    initialisation: Initialisation = "torch"
    """First weights: torch's own, or fan_out, near zero in the last layer (pomdp-baselines)."""
    log_std_min: float = only_for("Box", -20.0)
    """Box, stochastic: the log of the standard deviation is kept above this."""

    def __post_init__(self) -> None:
        sizes = ("head_width", "head_layers", "last_width", "critic_width", "critic_layers")
        at_least(self, 1, *sizes)
        between(self, -100.0, 2.0, "log_std_min")
        one_of(self, "activation", Activation)
        one_of(self, "initialisation", Initialisation)

    @property
    def policy_widths(self) -> list[int]:
        """Hidden layers of the policy."""
        return _widths(self.head_width, self.head_layers, self.last_width)

    @property
    def critic_widths(self) -> list[int]:
        """Hidden layers of each critic."""
        if self.critic_width is None:
            return _widths(self.head_width, self.critic_layers or self.head_layers, self.last_width)
        return _widths(self.critic_width, self.critic_layers or self.head_layers, None)

    def policy(self, config: Config, dims: Dimensions, *, deterministic: bool) -> PolicyNetwork:
        """The policy: a distribution, or one action with the config's `exploration_noise`."""
        noise = config.algorithm.exploration_noise if deterministic else None
        return PlainPolicy(dims, self, noise)

    def critic(
        self, config: Config, dims: Dimensions, n_critics: int, outputs: int = 1
    ) -> CriticNetwork:
        """The critics, each with so many values for a Box action, or one for every Discrete one."""
        return PlainCritic(dims, self, n_critics, outputs)


@dataclass(frozen=True)
class PlainNetwork(ImageSizes, PlainSizes):
    """Sizes of policy and critic, and how images are read."""

    def __post_init__(self) -> None:
        PlainSizes.__post_init__(self)
        ImageSizes.__post_init__(self)


def _widths(width: int, layers: int, last: int | None) -> list[int]:
    return [width] * (layers - 1) + [width if last is None else last]


class PlainPolicy(PolicyNetwork):
    """pi(a | o_t)."""

    def __init__(self, dims: Dimensions, sizes: PlainSizes, noise: float | None) -> None:
        super().__init__()
        self._discrete, self._noise, self._log_std_min = dims.discrete, noise, sizes.log_std_min
        outputs = dims.action if dims.discrete or noise is not None else 2 * dims.action
        self.head = activated_mlp(
            dims.observation,
            sizes.policy_widths,
            outputs,
            sizes.activation,
            sizes.initialisation,
            POLICY_BOUND,
        )

    def _distribution(self, observation: Tensor) -> PolicyDistribution:
        output = self.head(observation)
        if self._noise is not None:
            return Deterministic.from_output(output, self._noise)
        return distribution(output, self._discrete, log_std_min=self._log_std_min)

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> PolicyDistribution:
        return self._distribution(inputs.observation)

    def step(self, inputs: ContextInputs, state: State) -> tuple[PolicyDistribution, State]:
        return self._distribution(inputs.observation), state


class HeadsCritic(CriticNetwork):
    """A critic whose heads read what is embedded and, for Box actions, the action beside it."""

    heads: ActivatedHeads
    _single: bool
    """Whether a head gives one value alone."""

    def values(
        self,
        embedded: Tensor,
        action: Tensor | None = None,
        heads: Tensor | None = None,
        *,
        frozen: bool = False,
    ) -> Tensor:
        """As every critic's; with more than one output these are a last dimension of Box values."""
        x = embedded if action is None else torch.cat([embedded, action], -1)
        q: Tensor = self.heads(x.flatten(0, -2), heads, frozen=frozen)  # (E, N, outputs)
        q = q.view(q.shape[0], *x.shape[:-1], -1)
        return q.squeeze(-1) if self._single else q


class PlainCritic(HeadsCritic):
    """Q(o_t, a_t) of E heads with nothing in common."""

    def __init__(self, dims: Dimensions, sizes: PlainSizes, n_critics: int, outputs: int) -> None:
        super().__init__()
        self._single = not dims.discrete and outputs == 1
        self.heads = ActivatedHeads(
            n_critics,
            dims.observation if dims.discrete else dims.observation + dims.action,
            sizes.critic_widths,
            dims.action if dims.discrete else outputs,
            sizes.activation,
            sizes.initialisation,
            CRITIC_BOUND,
        )

    def embed(self, inputs: ContextInputs, is_first: Tensor) -> Tensor:
        return inputs.observation

    def embed_step(self, inputs: ContextInputs, state: State) -> tuple[Tensor, State]:
        return inputs.observation[:, None], state


class InnerCritic(CriticNetwork):
    """A critic inside one that knows more than o_t: what that is, `embed` says."""

    inside: CriticNetwork

    def values(
        self,
        embedded: Tensor,
        action: Tensor | None = None,
        heads: Tensor | None = None,
        *,
        frozen: bool = False,
    ) -> Tensor:
        return self.inside.values(embedded, action, heads, frozen=frozen)
