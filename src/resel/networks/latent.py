"""A context that policy and critics read but do not teach, as in Luo et al. 2022 (ESCP).

    [o_t, a_{t-1}] --a layer--> context encoder --a layer, tanh--> z_t
    policy:  [z_t, o_t] --> distribution of a_t
    critic:  [o_t, context, a_t] --> one value per head, with z_t or another context in its place
    model:   [o_t, z_t, a_t] --> o_{t+1} - o_t

The context encoder is part of the policy, and learns by a loss of its own: no gradient of policy or
critics comes through z_t.

Glossary
    N slots of a batch, P of them that are asked for, H steps of history
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from resel.config import Config, Count, at_least, between, one_of, only_for, scaled
from resel.networks.base import Network, Shared
from resel.networks.distributions import PolicyDistribution
from resel.networks.encoders import State
from resel.networks.heads import CRITIC_BOUND, ActivatedHeads, Activation, Initialisation
from resel.networks.inputs import ContextInputs, Dimensions
from resel.networks.plain import InnerCritic, PlainCritic, PlainNetwork
from resel.networks.sequence import SequencePolicy, SequenceTrunk


@dataclass(frozen=True)
class LatentNetwork:
    """Sizes of policy, critic and what else reads the context."""

    embedding: Count = scaled(128)
    """Outputs of the layer that embeds [o_t, a_{t-1}] for the context encoder."""
    width: Count = scaled(64)
    """Width of the context encoder."""
    context_size: Count = 2
    """Numbers of the context."""
    head_width: Count = scaled(128)
    """Width of the hidden layers of policy and critic."""
    head_layers: Count = 2
    """Hidden layers of policy and critic."""
    last_width: Count | None = scaled(64)
    """Width of the last hidden layer; None makes it as wide as the others."""
    activation: Activation = "leaky_relu"
    """What follows a hidden layer: relu, leaky_relu, elu or tanh."""
    log_std_min: float = only_for("Box", -7.0)
    """Box: the log of the standard deviation is kept above this."""

    # What else `sequence` asks of sizes.
    joint_embedding: ClassVar[bool] = True
    reward_input: ClassVar[bool] = False
    policy_shortcut: ClassVar[int] = 0
    head_initialisation: ClassVar[Initialisation] = "torch"

    def __post_init__(self) -> None:
        at_least(self, 1, "embedding", "width", "context_size")
        at_least(self, 1, "head_width", "head_layers", "last_width")
        between(self, -100.0, 2.0, "log_std_min")
        one_of(self, "activation", Activation)

    @property
    def embedding_activation(self) -> Activation:
        """What follows the embedding."""
        return self.activation

    @property
    def heads(self) -> PlainNetwork:
        """The sizes of a critic that reads all it knows as one observation."""
        return PlainNetwork(
            self.head_width, self.head_layers, self.last_width, activation=self.activation
        )

    @property
    def head_widths(self) -> list[int]:
        """Hidden layers of a head."""
        return self.heads.policy_widths

    def kinds(self, dims: Dimensions) -> list[tuple[int, int]]:
        """What the context encoder reads; the embedding is one for both."""
        return [(dims.observation, self.embedding), (dims.action, 0)]

    def trunk(self, config: Config, dims: Dimensions) -> SequenceTrunk:
        """What leads from the inputs to a context."""
        return SequenceTrunk(dims, config)


@dataclass(frozen=True)
class RecentNetwork(LatentNetwork):
    """The same for a context that knows the newest `context_length` steps alone."""

    def trunk(self, config: Config, dims: Dimensions) -> SequenceTrunk:
        return RecentTrunk(dims, config)


class RecentTrunk(SequenceTrunk):
    """A context of the newest H inputs: each time the context encoder reads them from nothing.

    Its state is these inputs, and how many there are.
    """

    def __init__(self, dims: Dimensions, config: Config) -> None:
        super().__init__(dims, config)
        self._steps: int = config.algorithm.context_length
        self._inputs = dims.observation + dims.action

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> Tensor:
        everywhere = torch.arange(is_first.numel(), device=is_first.device)
        return self.at(inputs, is_first, everywhere).view(*is_first.shape, -1)

    def at(self, inputs: ContextInputs, is_first: Tensor, slots: Tensor) -> Tensor:
        """Context (P, size) at some slots of (rows, length), counted over all rows."""
        back = torch.arange(1 - self._steps, 1, device=slots.device)  # (H,)
        outside = (slots % is_first.shape[1])[:, None] + back < 0
        source = torch.where(outside, torch.zeros_like(back), slots[:, None] + back)  # (P, H)
        newest = self._embed(inputs).flatten(0, 1)[source]  # (P, H, inputs)
        return self._last(newest, is_first.flatten()[source] | outside)

    def step(self, inputs: ContextInputs, state: State) -> tuple[Tensor, State]:
        newest = torch.cat([state[0][:, 1:], self._embed(inputs)[:, None]], 1)  # (rows, H, inputs)
        seen = (state[1] + 1).clamp(max=self._steps)  # (rows, 1)
        age = torch.arange(self._steps - 1, -1, -1, device=seen.device)
        return self._last(newest, age >= seen - 1), (newest, seen)

    def _last(self, newest: Tensor, is_first: Tensor) -> Tensor:
        """The context after the last of (P, H, inputs), from the last of the starts on."""
        if torch.compiler.is_compiling():  # step by step, which a graph can hold
            nothing = self.context_encoder.rnn.initial_state(1)
            rows = tuple(part.expand(newest.shape[0], *part.shape[1:]) for part in nothing)
            return self.context_encoder.forward_from(newest, is_first, rows)[:, -1]
        return self.context_encoder(newest, is_first)[:, -1]  # type: ignore[no-any-return]

    def initial_state(self, rows: int) -> State:
        new = next(self.parameters()).new_zeros
        return new(rows, self._steps, self._inputs), new(rows, 1)


class LatentPolicy(SequencePolicy):
    """pi(a | o_t, z_t), which teaches the context nothing."""

    def _distribution(self, observation: Tensor, context: Tensor) -> PolicyDistribution:
        return super()._distribution(observation, context.detach())

    def given(self, observation: Tensor, context: Tensor) -> PolicyDistribution:
        """What it would do if that were the context."""
        return self._distribution(observation, context)


class LatentCritic(InnerCritic):
    """Q(o_t, context, a_t) of E heads; if nobody gives a context, it is that of the policy."""

    def __init__(
        self, dims: Dimensions, config: Config, trunk: SequenceTrunk, n_critics: int
    ) -> None:
        super().__init__()
        self._trunk = Shared(trunk)
        sizes: LatentNetwork = config.network
        known = dims._replace(observation=dims.observation + sizes.context_size)
        self.inside = PlainCritic(known, sizes.heads, n_critics, 1)

    @staticmethod
    def given(observation: Tensor, context: Tensor) -> Tensor:
        """What the heads need besides the action, with this context."""
        return torch.cat([observation, context], -1)

    @torch.no_grad()
    def embed(self, inputs: ContextInputs, is_first: Tensor) -> Tensor:
        return self.given(inputs.observation, self._trunk.held(inputs, is_first))

    @torch.no_grad()
    def embed_step(self, inputs: ContextInputs, state: State) -> tuple[Tensor, State]:
        context, state = self._trunk.held.step(inputs, state)
        return self.given(inputs.observation, context)[:, None], state

    def initial_state(self, rows: int) -> State:
        return self._trunk.held.initial_state(rows)


class TransitionModel(Network):
    """By how much the observation changes, from o_t, z_t and a_t."""

    def __init__(self, dims: Dimensions, sizes: LatentNetwork) -> None:
        super().__init__()
        self.heads = ActivatedHeads(
            1,
            dims.observation + sizes.context_size + dims.action,
            sizes.head_widths,
            dims.observation,
            sizes.activation,
            sizes.head_initialisation,
            CRITIC_BOUND,
        )

    def forward(self, known: Sequence[Tensor], *, frozen: bool = False) -> Tensor:
        """(rows, length, O) from (o_t, z_t, a_t); `frozen` keeps gradients off the weights."""
        x = torch.cat(list(known), -1)
        change: Tensor = self.heads(x.flatten(0, 1), frozen=frozen)  # (1, N, O)
        return change.view(*x.shape[:2], -1)
