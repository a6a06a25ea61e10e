"""Policy and value on one context encoder, for methods that learn from what they just did.

    o_t, (a_{t-1}), (r_{t-1}) --a layer for each kind, or none--> context encoder --> context_t
    (context_t --a layer--> context_t)
    context_t --tanh layers--> distribution of a_t
    context_t --tanh layers--> V_t

Box actions are Gaussian with one deviation for all situations, and the environment cuts them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from resel.config import Config, Count, at_least, one_of, only_for, scaled
from resel.networks.base import LrScope, PolicyNetwork
from resel.networks.distributions import Categorical, Gaussian, LikelihoodPolicy
from resel.networks.encoders import State, build_encoder, encoder_spec
from resel.networks.heads import Activation, Initialisation, activated_mlp
from resel.networks.images import ImageSizes, image_reader, seen_size
from resel.networks.inputs import ContextInputs, Dimensions

_MEAN_GAIN, _VALUE_GAIN = 1.0, 2**0.5


@dataclass(frozen=True)
class HeadSizes:
    """Sizes of the heads of policy and value."""

    head_width: Count = scaled(64)
    """Width of the hidden layers of policy and value."""
    head_layers: Count = 2
    """Hidden layers of each."""
    activation: Activation = "tanh"
    """What follows a hidden layer: relu, leaky_relu or tanh."""
    head_initialisation: Initialisation = "orthogonal"
    """First weights of the heads: torch's own, fan_out, orthogonal or normc."""
    log_std_start: float = only_for("Box", 0.0)
    """Box: the log of the standard deviation at the start."""

    def __post_init__(self) -> None:
        at_least(self, 1, "head_width", "head_layers")
        one_of(self, "activation", Activation)
        one_of(self, "head_initialisation", Initialisation)


@dataclass(frozen=True)
class ActorCriticNetwork(HeadSizes, ImageSizes):
    """Sizes of policy and value."""

    shares_images: ClassVar[bool] = True

    observation_embedding: Count = scaled(0)
    """Outputs of the layer that embeds o_t for the context encoder; 0 hands over o_t itself."""
    action_embedding: Count = scaled(0)
    """Outputs of the layer that embeds the last action; 0 leaves it out."""
    reward_embedding: Count = scaled(0)
    """Outputs of the layer that embeds the last reward; 0 leaves it out."""
    width: Count = scaled(64)
    """Width of the context encoder."""
    context_size: Count = scaled(0)
    """Outputs of a linear layer with ReLU behind the encoder; 0 leaves it out."""

    def __post_init__(self) -> None:
        HeadSizes.__post_init__(self)
        ImageSizes.__post_init__(self)
        at_least(self, 0, "observation_embedding", "action_embedding", "reward_embedding")
        at_least(self, 0, "context_size")
        at_least(self, 1, "width")

    @property
    def reward_input(self) -> bool:
        """Whether the last reward is read."""
        return self.reward_embedding > 0


class ValuedPolicy(PolicyNetwork):
    """A policy and a value that read the same: what on-policy methods act with."""

    head: nn.Sequential
    value_head: nn.Sequential

    def _make_heads(self, inputs: int, dims: Dimensions, sizes: HeadSizes) -> None:
        widths = [sizes.head_width] * sizes.head_layers
        how = (sizes.activation, sizes.head_initialisation)
        self._discrete = dims.discrete
        self.head = activated_mlp(inputs, widths, dims.action, *how, _MEAN_GAIN)
        self.value_head = activated_mlp(inputs, widths, 1, *how, _VALUE_GAIN)
        if not dims.discrete:
            self.log_std = nn.Parameter(torch.full((dims.action,), sizes.log_std_start))

    def _distribution(self, x: Tensor) -> LikelihoodPolicy:
        output: Tensor = self.head(x)
        if self._discrete:
            return Categorical.from_output(output)
        return Gaussian(output, self.log_std.expand_as(output) + 0)  # made anew while acting

    def _both(self, x: Tensor) -> tuple[LikelihoodPolicy, Tensor]:
        """Distributions and values (rows, length)."""
        value: Tensor = self.value_head(x)
        return self._distribution(x), value.squeeze(-1)

    @abstractmethod
    def evaluate(
        self, inputs: ContextInputs, is_first: Tensor, state: State
    ) -> tuple[LikelihoodPolicy, Tensor]:
        """Distributions and values (rows, length) over rows that begin with a memory.

        `state` is nothing where all of them begin without one.
        """


class ActorCritic(ValuedPolicy):
    """pi(a | history) and V(history)."""

    def __init__(self, dims: Dimensions, config: Config) -> None:
        super().__init__()
        sizes: ActorCriticNetwork = config.network
        self.image = image_reader(config, dims)
        kinds = [(seen_size(sizes, dims), sizes.observation_embedding)]
        kinds += [(dims.action, sizes.action_embedding)] if sizes.action_embedding else []
        kinds += [(1, sizes.reward_embedding)] if sizes.reward_embedding else []
        self._reads = (True, sizes.action_embedding > 0, sizes.reward_embedding > 0)
        self.embeddings = nn.ModuleList(
            nn.Sequential(nn.Linear(inputs, size), nn.ReLU()) if size else nn.Identity()
            for inputs, size in kinds
        )
        inputs = sum(size or raw for raw, size in kinds)
        assert config.encoder is not None
        if encoder_spec(config.encoder).build_from is not None:
            self.before: nn.Module = nn.Identity()
            self.encoder = build_encoder(config, sizes.width, inputs)
        else:
            self.before = nn.Linear(inputs, sizes.width)
            self.encoder = build_encoder(config, sizes.width)
        self.after: nn.Module = nn.Identity()
        if sizes.context_size:
            self.after = nn.Sequential(nn.Linear(sizes.width, sizes.context_size), nn.ReLU())
        self._make_heads(sizes.context_size or sizes.width, dims, sizes)

    def _embed(self, inputs: ContextInputs) -> Tensor:
        seen = inputs.observation if self.image is None else self.image(inputs.observation)
        parts = (seen, inputs.last_action, inputs.last_reward)
        read = [part for part, reads in zip(parts, self._reads, strict=True) if reads]
        pairs = zip(self.embeddings, read, strict=True)
        return self.before(torch.cat([layer(part) for layer, part in pairs], -1))  # type: ignore[no-any-return]

    def context(self, inputs: ContextInputs, is_first: Tensor) -> Tensor:
        """What it remembers at every step. (rows, length, size)"""
        found: Tensor = self.after(self.encoder(self._embed(inputs), is_first))
        return found

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> LikelihoodPolicy:
        return self._distribution(self.context(inputs, is_first))

    def evaluate(
        self, inputs: ContextInputs, is_first: Tensor, state: State
    ) -> tuple[LikelihoodPolicy, Tensor]:
        context = self.encoder.forward_from(self._embed(inputs), is_first, state)
        return self._both(self.after(context))

    def step(self, inputs: ContextInputs, state: State) -> tuple[LikelihoodPolicy, State]:
        context, state = self.encoder.step(self._embed(inputs), state)
        return self._distribution(self.after(context)), state

    def initial_state(self, rows: int) -> State:
        return self.encoder.initial_state(rows)

    def suitable_rows(self, lengths: Sequence[int]) -> int:
        return self.encoder.suitable_rows(lengths)

    def context_parameters(self, scope: LrScope) -> Iterable[Tensor]:
        yield from self.encoder.parameters()
        if scope == "encoder":
            yield from self.after.parameters()
