"""Policy, critics and value that also read a belief z about the task; what makes it of steps.

    (o, a, r, o') of a step --encoder--> mean and variance of a Gaussian over z
    o, z --> distribution of a;   o, z, a --> Q_1, Q_2;   o, z --> V

While acting z is the memory: it stays as it was at the start of an episode, by default 0.

Glossary
    Z entries of z
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from resel.config import Count, at_least, between, scaled
from resel.networks.base import Network, PolicyNetwork
from resel.networks.distributions import SquashedGaussian
from resel.networks.encoders import State
from resel.networks.heads import (
    CRITIC_BOUND,
    POLICY_BOUND,
    ActivatedHeads,
    Activation,
    Initialisation,
    activated_mlp,
)
from resel.networks.inputs import ContextInputs, Dimensions
from resel.networks.plain import HeadsCritic

_LEAST_VARIANCE = 1e-7
_HOW: tuple[Activation, Initialisation] = ("relu", "fan_out")


@dataclass(frozen=True)
class PearlNetwork:
    """Sizes of policy, critics, value and the encoder of steps."""

    latent_size: Count = 5
    """Entries of the belief about the task."""
    encoder_width: Count = scaled(200)
    """Width of the hidden layers of the encoder."""
    encoder_layers: Count = 3
    """Hidden layers of the encoder."""
    head_width: Count = scaled(300)
    """Width of the hidden layers of policy, critics and value."""
    head_layers: Count = 3
    """Hidden layers of each."""
    next_observation_input: bool = True
    """Whether the encoder reads the next observation, for tasks that differ in their dynamics; it
    may be left out where they differ in their rewards alone."""
    log_std_min: float = -20.0
    """The log of the policy's standard deviation is kept above this."""

    def __post_init__(self) -> None:
        sizes = ("latent_size", "encoder_width", "encoder_layers", "head_width", "head_layers")
        at_least(self, 1, *sizes)
        between(self, -100.0, 2.0, "log_std_min")

    @property
    def head_widths(self) -> list[int]:
        """Hidden layers of policy, critics and value."""
        return [self.head_width] * self.head_layers


class PearlPolicy(PolicyNetwork):
    """pi(a | o_t, z)."""

    def __init__(self, dims: Dimensions, sizes: PearlNetwork) -> None:
        super().__init__()
        self._latent, self._log_std_min = sizes.latent_size, sizes.log_std_min
        inputs = dims.observation + sizes.latent_size
        self.head = activated_mlp(inputs, sizes.head_widths, 2 * dims.action, *_HOW, POLICY_BOUND)

    def given(self, observation: Tensor, z: Tensor) -> SquashedGaussian:
        """Action distributions for observations (..., O) and beliefs (..., Z)."""
        output = self.head(torch.cat([observation, z], -1))
        return SquashedGaussian.from_output(output, self._log_std_min)

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> SquashedGaussian:
        """As the prior's mean has it."""
        zeros = inputs.observation.new_zeros(*is_first.shape, self._latent)
        return self.given(inputs.observation, zeros)

    def step(self, inputs: ContextInputs, state: State) -> tuple[SquashedGaussian, State]:
        return self.given(inputs.observation, state[0]), state

    def initial_state(self, rows: int) -> State:
        return (next(self.parameters()).new_zeros(rows, self._latent),)


class PearlCritic(HeadsCritic):
    """Q(o_t, z, a_t) of two heads, and the encoder that learns with them."""

    def __init__(self, dims: Dimensions, sizes: PearlNetwork, n_critics: int) -> None:
        super().__init__()
        self._latent, self._reads_next = sizes.latent_size, sizes.next_observation_input
        self._single = True
        self.heads = ActivatedHeads(
            n_critics,
            dims.observation + sizes.latent_size + dims.action,
            sizes.head_widths,
            1,
            *_HOW,
            CRITIC_BOUND,
        )
        inputs = dims.observation * (1 + self._reads_next) + dims.action + 1
        widths = [sizes.encoder_width] * sizes.encoder_layers
        self.encoder = activated_mlp(inputs, widths, 2 * self._latent, *_HOW, CRITIC_BOUND)

    def factors(
        self, observation: Tensor, action: Tensor, reward: Tensor, next_observation: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Mean and variance (..., Z) that each step (..., size) says of the task."""
        parts = [observation, action, reward[..., None]]
        parts += [next_observation] if self._reads_next else []
        mean, raw = self.encoder(torch.cat(parts, -1)).chunk(2, -1)
        return mean, F.softplus(raw).clamp(min=_LEAST_VARIANCE)

    def given(
        self, observation: Tensor, z: Tensor, action: Tensor, *, frozen: bool = False
    ) -> Tensor:
        """Q of every head (E, ...) for (..., size) of each."""
        return self.values(torch.cat([observation, z], -1), action, frozen=frozen)

    def embed(self, inputs: ContextInputs, is_first: Tensor) -> Tensor:
        """As the prior's mean has it."""
        zeros = inputs.observation.new_zeros(*is_first.shape, self._latent)
        return torch.cat([inputs.observation, zeros], -1)

    def embed_step(self, inputs: ContextInputs, state: State) -> tuple[Tensor, State]:
        return torch.cat([inputs.observation, state[0]], -1)[:, None], state

    def initial_state(self, rows: int) -> State:
        return (self.heads.weights[0].new_zeros(rows, self._latent),)


class PearlValue(Network):
    """V(o_t, z)."""

    def __init__(self, dims: Dimensions, sizes: PearlNetwork) -> None:
        super().__init__()
        inputs = dims.observation + sizes.latent_size
        self.head = activated_mlp(inputs, sizes.head_widths, 1, *_HOW, CRITIC_BOUND)

    def forward(self, observation: Tensor, z: Tensor) -> Tensor:  # (..., O), (..., Z) -> (...)
        value: Tensor = self.head(torch.cat([observation, z], -1))
        return value.squeeze(-1)
