"""Policy and critics on one context encoder, as in Ni et al. 2023.

    o_t, (a_{t-1}), (r_{t-1}) --a linear layer for each kind--> context encoder --> context_t
    policy:  context_t --> distribution of a_t
    critic:  [context_t, a_t] --> one value per head; for Discrete actions context_t --> all values

An image is read by convolutions in the place of the observation's layer. The encoder belongs to the
policy. The critic reads it and owns its heads alone, and so does its target.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from resel.config import Config, Count, at_least, between, one_of, only_for, scaled
from resel.networks.base import LrScope, PolicyNetwork, Shared
from resel.networks.distributions import StochasticPolicy, distribution
from resel.networks.encoders import State
from resel.networks.heads import (
    CRITIC_BOUND,
    POLICY_BOUND,
    ActivatedHeads,
    Activation,
    Initialisation,
    activated_mlp,
)
from resel.networks.images import ImageSizes, image_reader, seen_size, sees_images
from resel.networks.inputs import ContextInputs, Dimensions
from resel.networks.plain import HeadsCritic
from resel.networks.sequence import SequenceTrunk


@dataclass(frozen=True)
class SharedNetwork(ImageSizes):
    """Sizes of the encoder, policy and critics."""

    shares_images: ClassVar[bool] = True
    joint_embedding: ClassVar[bool] = False
    context_size: ClassVar[int] = 0
    embedding_activation: ClassVar[Activation | None] = None

    observation_embedding: Count = scaled(100)
    """Outputs of the layer that embeds o_t for the context encoder; of an image its features are
    taken instead."""
    action_embedding: Count = scaled(0)
    """Outputs of the layer that embeds the last action; 0 leaves it out."""
    reward_embedding: Count = scaled(0)
    """Outputs of the layer that embeds the last reward; 0 leaves it out."""
    width: Count = scaled(100)
    """Width of the context encoder."""
    head_width: Count = scaled(256)
    """Width of the hidden layers of policy and critics."""
    head_layers: Count = 2
    """Hidden layers of policy and critics."""
    activation: Activation = "relu"
    """What follows a hidden layer: relu, leaky_relu or elu."""
    head_initialisation: Initialisation = "fan_out"
    """First weights of the heads: torch's own, or fan_out: within 1/sqrt(outputs), near zero in the
    last layer."""
    log_std_min: float = only_for("Box", -20.0)
    """Box: the log of the standard deviation is kept above this."""
    image_channels: Count = 8
    """Observations that are images: channels of the first of two convolutions, of which the second
    has twice as many; 0 reads an image as a vector."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "observation_embedding", "width", "head_width", "head_layers")
        at_least(self, 0, "action_embedding", "reward_embedding")
        between(self, -100.0, 2.0, "log_std_min")
        one_of(self, "activation", Activation)
        one_of(self, "head_initialisation", Initialisation)

    @property
    def reward_input(self) -> bool:
        """Whether the last reward is read."""
        return self.reward_embedding > 0

    @property
    def head_widths(self) -> list[int]:
        """Hidden layers of a head."""
        return [self.head_width] * self.head_layers

    def kinds(self, dims: Dimensions) -> list[tuple[int, int]]:
        """What the context encoder reads: of each kind its size, and that of its embedding.

        An embedding of size 0 hands over what it reads, here the features of an image.
        """
        embedding = 0 if sees_images(self, dims) else self.observation_embedding
        kinds = [(seen_size(self, dims), embedding)]
        kinds += [(dims.action, self.action_embedding)] if self.action_embedding else []
        return [*kinds, (1, self.reward_embedding)] if self.reward_embedding else kinds


class SharedTrunk(SequenceTrunk):
    """What leads from the inputs to a context, for policy and critics."""

    def __init__(self, dims: Dimensions, config: Config) -> None:
        super().__init__(dims, config)
        sizes: SharedNetwork = config.network
        self._reads_action = sizes.action_embedding > 0
        self.image = image_reader(config, dims)

    def _embed(self, inputs: ContextInputs) -> Tensor:
        seen = inputs.observation if self.image is None else self.image(inputs.observation)
        parts = [seen]
        parts += [inputs.last_action] if self._reads_action else []
        parts += [inputs.last_reward] if self._reads_reward else []
        return self._joined(parts)


class SharedPolicy(PolicyNetwork):
    """The context encoder, and pi(a | history) on it."""

    def __init__(self, dims: Dimensions, config: Config) -> None:
        super().__init__()
        sizes: SharedNetwork = config.network
        self._discrete, self._log_std_min = dims.discrete, sizes.log_std_min
        self.trunk = SharedTrunk(dims, config)
        self.head = activated_mlp(
            sizes.width,
            sizes.head_widths,
            dims.action if dims.discrete else 2 * dims.action,
            sizes.activation,
            sizes.head_initialisation,
            POLICY_BOUND,
        )

    def context(self, inputs: ContextInputs, is_first: Tensor) -> Tensor:
        """What is remembered at every step. (rows, length, width)"""
        return self.trunk(inputs, is_first)  # type: ignore[no-any-return]

    def at(self, context: Tensor) -> StochasticPolicy:
        """The policy where this is remembered."""
        return distribution(self.head(context), self._discrete, log_std_min=self._log_std_min)

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> StochasticPolicy:
        return self.at(self.context(inputs, is_first))

    def step(self, inputs: ContextInputs, state: State) -> tuple[StochasticPolicy, State]:
        context, state = self.trunk.step(inputs, state)
        return self.at(context), state

    def initial_state(self, rows: int) -> State:
        return self.trunk.initial_state(rows)

    def suitable_rows(self, lengths: Sequence[int]) -> int:
        return self.trunk.context_encoder.rnn.suitable_rows(lengths)

    def context_parameters(self, scope: LrScope) -> Iterable[Tensor]:
        return self.trunk.parameters_of(scope)


class SharedCritic(HeadsCritic):
    """Q(history, a) of E heads on the policy's encoder, which learns with the policy."""

    def __init__(
        self, dims: Dimensions, config: Config, policy: SharedPolicy, n_critics: int
    ) -> None:
        super().__init__()
        sizes: SharedNetwork = config.network
        self._trunk, self._single = Shared(policy.trunk), not dims.discrete
        self.heads = ActivatedHeads(
            n_critics,
            sizes.width if dims.discrete else sizes.width + dims.action,
            sizes.head_widths,
            dims.action if dims.discrete else 1,
            sizes.activation,
            sizes.head_initialisation,
            CRITIC_BOUND,
        )

    def embed(self, inputs: ContextInputs, is_first: Tensor) -> Tensor:
        """The context (rows, length, width)."""
        return self._trunk.held(inputs, is_first)  # type: ignore[no-any-return]

    def embed_step(self, inputs: ContextInputs, state: State) -> tuple[Tensor, State]:
        context, state = self._trunk.held.step(inputs, state)
        return context[:, None], state

    def initial_state(self, rows: int) -> State:
        return self._trunk.held.initial_state(rows)
