"""Policies and critics that read o_t and the belief; no gradient of theirs reaches its encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from resel.config import Config, Count, at_least, between, one_of, only_for, scaled
from resel.networks.actor_critic import HeadSizes, ValuedPolicy
from resel.networks.base import PolicyNetwork, Shared
from resel.networks.beliefs import BeliefSizes, BeliefVAE
from resel.networks.distributions import Gaussian, LikelihoodPolicy, PolicyDistribution
from resel.networks.encoders import State
from resel.networks.heads import ACTIVATIONS, Activation, Initialisation
from resel.networks.inputs import ContextInputs, Dimensions
from resel.networks.normalizer import ObservationNormalizer
from resel.networks.plain import InnerCritic, PlainNetwork


class _Reader:
    """Looks up beliefs without a gradient."""

    def __init__(self, vae: BeliefVAE) -> None:
        self.vae = Shared(vae)

    @torch.no_grad()
    def all(self, inputs: ContextInputs, is_first: Tensor, state: State = ()) -> Tensor:
        """[o_t, belief] at every step. (rows, length, size)"""
        belief = self.vae.held.forward_from(inputs, is_first, state)
        return torch.cat([inputs.observation, belief], -1)

    @torch.no_grad()
    def one(self, inputs: ContextInputs, state: State) -> tuple[Tensor, State]:
        """The same at one moment, (rows, size), and the state for the next."""
        belief, state = self.vae.held.step(inputs, state)
        return torch.cat([inputs.observation, belief], -1), state


def _one_row_each(lengths: Sequence[int]) -> int:
    """A trajectory is decoded by all of its beliefs: rows must not be longer than one."""
    return len(lengths)


@dataclass(frozen=True)
class BeliefActorCriticNetwork(BeliefSizes, HeadSizes):
    """Sizes of beliefs, policy and value."""

    head_width: Count = scaled(128)
    """Width of the hidden layers of policy and value."""
    head_initialisation: Initialisation = "normc"
    """First weights of the heads: torch's own, fan_out, orthogonal or normc."""
    policy_embedding: Count = scaled(64)
    """Outputs of the layer that embeds o_t for policy and value, and of that for the belief."""
    bounded_mean: bool = only_for("Box", False)
    """Box: keep the mean of the policy within the bounds of actions, by tanh."""

    def __post_init__(self) -> None:
        BeliefSizes.__post_init__(self)
        HeadSizes.__post_init__(self)
        at_least(self, 1, "policy_embedding")


class BeliefActorCritic(ValuedPolicy):
    """pi(a | o_t, belief) and V(o_t, belief), of what is scaled by its running mean and spread."""

    def __init__(self, dims: Dimensions, config: Config, vae: BeliefVAE, *, scales: bool) -> None:
        super().__init__()
        sizes: BeliefActorCriticNetwork = config.network
        self._read, self._bounded = _Reader(vae), sizes.bounded_mean
        self._sizes = [dims.observation, sizes.belief_size]
        self.scale = ObservationNormalizer(sum(self._sizes), scales)
        self.embeddings = nn.ModuleList(
            nn.Linear(size, sizes.policy_embedding) for size in self._sizes
        )
        self._activation = ACTIVATIONS[sizes.activation]
        self._make_heads(2 * sizes.policy_embedding, dims, sizes)

    def seen(self, inputs: ContextInputs, is_first: Tensor, state: State) -> Tensor:
        """[o_t, belief] as they are, over rows that begin with a memory."""
        return self._read.all(inputs, is_first, state)

    def judge(self, seen: Tensor) -> tuple[LikelihoodPolicy, Tensor]:
        """Distributions and values from these, scaled. (rows, length)"""
        return self._both(self._embed(seen))

    def _embed(self, seen: Tensor) -> Tensor:
        parts = torch.split(seen, self._sizes, -1)
        pairs = zip(self.embeddings, parts, strict=True)
        return torch.cat([self._activation(layer(part)) for layer, part in pairs], -1)

    def _distribution(self, x: Tensor) -> LikelihoodPolicy:
        policy = super()._distribution(x)
        if self._bounded and isinstance(policy, Gaussian):
            return Gaussian(torch.tanh(policy.mean), policy.log_std)
        return policy

    def context(self, inputs: ContextInputs, is_first: Tensor) -> Tensor:
        return self._read.all(inputs, is_first)[..., self._sizes[0] :]

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> LikelihoodPolicy:
        return self._distribution(self._embed(self.scale(self._read.all(inputs, is_first))))

    def evaluate(
        self, inputs: ContextInputs, is_first: Tensor, state: State
    ) -> tuple[LikelihoodPolicy, Tensor]:
        return self.judge(self.scale(self.seen(inputs, is_first, state)))

    def step(self, inputs: ContextInputs, state: State) -> tuple[LikelihoodPolicy, State]:
        seen, state = self._read.one(inputs, state)
        return self._distribution(self._embed(self.scale(seen))), state

    def initial_state(self, rows: int) -> State:
        return self._read.vae.held.initial_state(rows)

    def suitable_rows(self, lengths: Sequence[int]) -> int:
        return _one_row_each(lengths)


@dataclass(frozen=True)
class BeliefNetwork(BeliefSizes):
    """Sizes of beliefs, policy and critic."""

    head_width: Count = scaled(128)
    """Width of the hidden layers of policy and critic."""
    head_layers: Count = 3
    """Hidden layers of policy and critic."""
    activation: Activation = "relu"
    """What follows a hidden layer: relu, leaky_relu or elu."""
    head_initialisation: Initialisation = "torch"
    """First weights of the heads: torch's own, or fan_out, near zero in the last layer."""
    log_std_min: float = only_for("Box", -20.0)
    """Box: the log of the standard deviation is kept above this."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "head_width", "head_layers")
        between(self, -100.0, 2.0, "log_std_min")
        one_of(self, "activation", Activation)
        one_of(self, "head_initialisation", Initialisation)

    @property
    def heads(self) -> PlainNetwork:
        """The same for policy and critic that have no memory, as those on top of beliefs."""
        return PlainNetwork(
            self.head_width,
            self.head_layers,
            activation=self.activation,
            initialisation=self.head_initialisation,
            log_std_min=self.log_std_min,
        )

    def inside(self, dims: Dimensions) -> Dimensions:
        """What they read."""
        return dims._replace(observation=dims.observation + self.belief_size)


class BeliefPolicy(PolicyNetwork):
    """pi(a | o_t, belief)."""

    def __init__(self, dims: Dimensions, config: Config, vae: BeliefVAE) -> None:
        super().__init__()
        sizes: BeliefNetwork = config.network
        self._read, self._own = _Reader(vae), dims.observation
        self.inside = sizes.heads.policy(config, sizes.inside(dims), deterministic=False)

    def context(self, inputs: ContextInputs, is_first: Tensor) -> Tensor:
        return self._read.all(inputs, is_first)[..., self._own :]

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> PolicyDistribution:
        seen = inputs._replace(observation=self._read.all(inputs, is_first))
        policy: PolicyDistribution = self.inside(seen, is_first)
        return policy

    def step(self, inputs: ContextInputs, state: State) -> tuple[PolicyDistribution, State]:
        seen, state = self._read.one(inputs, state)
        return self.inside.step(inputs._replace(observation=seen), ())[0], state

    def initial_state(self, rows: int) -> State:
        return self._read.vae.held.initial_state(rows)

    def suitable_rows(self, lengths: Sequence[int]) -> int:
        return _one_row_each(lengths)


class BeliefCritic(InnerCritic):
    """Q(o_t, belief, a_t) of so many heads."""

    def __init__(self, dims: Dimensions, config: Config, vae: BeliefVAE, n_critics: int) -> None:
        super().__init__()
        sizes: BeliefNetwork = config.network
        self._read = _Reader(vae)
        self.inside = sizes.heads.critic(config, sizes.inside(dims), n_critics)

    def embed(self, inputs: ContextInputs, is_first: Tensor) -> Tensor:
        return self._read.all(inputs, is_first)

    def embed_step(self, inputs: ContextInputs, state: State) -> tuple[Tensor, State]:
        seen, state = self._read.one(inputs, state)
        return seen[:, None], state

    def initial_state(self, rows: int) -> State:
        return self._read.vae.held.initial_state(rows)
