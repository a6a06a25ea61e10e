"""Policy and critic of the paper: pre-encoders, context encoder, heads.

    o_t, o_{t-1}, a_{t-1}, (r_{t-1}) --pre-encoders--> context encoder --> context_t
    policy:  [embedding of o_t, context_t] --> distribution of a_t
    critic:  [embedding of o_t, embedding of a_t, context_t] --> one value per head

o_t is embedded twice, by separate layers; a_t enters only the critic's heads; policy and critic
share nothing. For Discrete actions the critic gives one value per action and embeds no a_t. What
the critic alone is told enters its embedding of o_t, as one layer on both would read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from resel.config import Config, Count, at_least, between, only_for, scaled
from resel.networks.base import CriticNetwork, LrScope, PolicyNetwork
from resel.networks.distributions import PolicyDistribution, distribution
from resel.networks.encoders import State, build_encoder
from resel.networks.ensemble import EnsembleMLP
from resel.networks.folding import Reading
from resel.networks.images import ImageSizes
from resel.networks.inputs import ContextInputs, Dimensions
from resel.networks.layers import MLP, Hidden, xavier_linear
from resel.networks.ops.feed_forward import elu_linear


@dataclass(frozen=True)
class ContextNetwork(ImageSizes):
    """Sizes of policy and critic, as in the paper's appendix."""

    reads_last_observation: ClassVar[bool] = True

    embedding: Count = scaled(128)
    """Outputs of each pre-encoder and of the context encoder."""
    width: Count = scaled(256)
    """Width of the context encoder."""
    input_layers: Count = 1
    """Linear + ELU layers in front of the recurrent block."""
    head_width: Count = scaled(256)
    """Width of the hidden layers of the policy and critic MLPs."""
    head_layers: Count = 2
    """Hidden layers of the policy and critic MLPs."""
    reward_input: bool = False
    """Feed the last reward to the context encoder, as meta-RL tasks need it."""
    probability_floor: float = only_for("Discrete", 0.0)
    """Discrete: added to the probability of each action, so that none is given up for good (the
    released code adds 0.01)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "embedding", "width", "input_layers", "head_width", "head_layers")
        between(self, 0.0, 1.0, "probability_floor")


class ContextEncoder(nn.Module):
    """Linear + ELU layers, recurrent block, ELU, linear: the part with its own learning rate."""

    def __init__(self, inputs: int, config: Config) -> None:
        super().__init__()
        sizes: ContextNetwork = config.network
        self.before = Hidden(inputs, sizes.width, sizes.input_layers)
        self.rnn = build_encoder(config, sizes.width)
        self.after = xavier_linear(sizes.width, sizes.embedding)

    def forward(self, readings: Sequence[Reading], is_first: Tensor) -> Tensor:
        y = self.rnn(self.before.folded(readings), is_first)
        return elu_linear(y, self.after.weight, self.after.bias)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        y, state = self.rnn.step(self.before(x), state)
        return self.after(F.elu(y)), state


class ContextTrunk(nn.Module):
    """Pre-encoders, one linear layer for each kind of input, and the context encoder."""

    def __init__(self, dims: Dimensions, config: Config) -> None:
        super().__init__()
        sizes: ContextNetwork = config.network
        self.observation = nn.Linear(dims.observation, sizes.embedding)
        self.last_observation = nn.Linear(dims.observation, sizes.embedding)
        self.last_action = nn.Linear(dims.action, sizes.embedding)
        self.last_reward = nn.Linear(1, sizes.embedding) if sizes.reward_input else None
        kinds = 4 if sizes.reward_input else 3
        self.context_encoder = ContextEncoder(kinds * sizes.embedding, config)

    def _read(self, inputs: ContextInputs) -> list[tuple[nn.Linear, Tensor]]:
        """What is read, each with the layer that embeds it."""
        pairs = [
            (self.observation, inputs.observation),
            (self.last_observation, inputs.last_observation),
            (self.last_action, inputs.last_action),
        ]
        return [*pairs, (self.last_reward, inputs.last_reward)] if self.last_reward else pairs

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> Tensor:
        """Context (rows, length, embedding) over a packed sequence."""
        readings = [Reading.through(layer, x) for layer, x in self._read(inputs)]
        return self.context_encoder(readings, is_first)  # type: ignore[no-any-return]

    def step(self, inputs: ContextInputs, state: State) -> tuple[Tensor, State]:
        """Context (rows, embedding) at one moment."""
        # Nothing is folded: there is one step only to fold it for.
        x = torch.cat([layer(x) for layer, x in self._read(inputs)], -1)
        return self.context_encoder.step(x, state)

    def parameters_of(self, scope: LrScope) -> Iterable[Tensor]:
        """The context encoder, or its recurrent layers alone."""
        encoder = self.context_encoder
        return (encoder.rnn if scope == "rnn" else encoder).parameters()


class ContextPolicy(PolicyNetwork):
    """pi(a | history)."""

    def __init__(self, dims: Dimensions, config: Config) -> None:
        super().__init__()
        sizes: ContextNetwork = config.network
        self.discrete = dims.discrete
        self.probability_floor = sizes.probability_floor
        self.trunk = ContextTrunk(dims, config)
        self.observation = xavier_linear(dims.observation, sizes.embedding)
        outputs = dims.action if dims.discrete else 2 * dims.action
        self.head = MLP(2 * sizes.embedding, sizes.head_width, sizes.head_layers, outputs)

    def context(self, inputs: ContextInputs, is_first: Tensor) -> Tensor:
        """What the policy remembers at every step. (rows, length, embedding)"""
        return self.trunk(inputs, is_first)  # type: ignore[no-any-return]

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> PolicyDistribution:
        seen = Reading.through(self.observation, inputs.observation)
        output = self.head.folded([seen, Reading(self.trunk(inputs, is_first))])
        return distribution(output, self.discrete, self.probability_floor)

    def step(self, inputs: ContextInputs, state: State) -> tuple[PolicyDistribution, State]:
        context, state = self.trunk.step(inputs, state)
        output = self.head(torch.cat([self.observation(inputs.observation), context], -1))
        return distribution(output, self.discrete, self.probability_floor), state

    def initial_state(self, rows: int) -> State:
        return self.trunk.context_encoder.rnn.initial_state(rows)

    def suitable_rows(self, lengths: Sequence[int]) -> int:
        return self.trunk.context_encoder.rnn.suitable_rows(lengths)

    def context_parameters(self, scope: LrScope) -> Iterable[Tensor]:
        return self.trunk.parameters_of(scope)


class _Embedded(NamedTuple):
    """All that the critic's heads need besides the action."""

    observation: Tensor
    """o_t, not embedded yet."""
    context: Tensor
    told: Tensor | None = None
    """What the critic alone is told, embedded."""


class ContextCritic(CriticNetwork):
    """Q(history, a), an ensemble of heads on one context encoder."""

    def __init__(self, dims: Dimensions, config: Config, n_critics: int) -> None:
        super().__init__()
        sizes: ContextNetwork = config.network
        self.trunk = ContextTrunk(dims, config)
        self.observation = nn.Linear(dims.observation, sizes.embedding)
        self.action = None if dims.discrete else nn.Linear(dims.action, sizes.embedding)
        self.heads = EnsembleMLP(
            n_critics,
            (2 if dims.discrete else 3) * sizes.embedding,
            sizes.head_width,
            sizes.head_layers,
            dims.action if dims.discrete else 1,
        )
        # A layer of its own, and drawn last: all else is what it is without a signal.
        told = dims.privileged
        self.privileged = nn.Linear(told, sizes.embedding, bias=False) if told else None

    def embed(self, inputs: ContextInputs, is_first: Tensor) -> _Embedded:
        return _Embedded(inputs.observation, self.trunk(inputs, is_first))

    def embed_step(self, inputs: ContextInputs, state: State) -> tuple[_Embedded, State]:
        context, state = self.trunk.step(inputs, state)
        return _Embedded(inputs.observation[:, None], context[:, None]), state

    def initial_state(self, rows: int) -> State:
        return self.trunk.context_encoder.rnn.initial_state(rows)

    def informed(self, embedded: _Embedded, signal: Tensor) -> _Embedded:
        assert self.privileged is not None
        return embedded._replace(told=self.privileged(signal))

    def values(
        self,
        embedded: _Embedded,
        action: Tensor | None = None,
        heads: Tensor | None = None,
        *,
        frozen: bool = False,
    ) -> Tensor:
        observation, context, told = embedded
        seen = Reading.through(self.observation, observation, frozen=frozen)
        if told is not None:
            seen = Reading(seen.embedded() + told)
        readings = [seen, Reading(context)]
        if self.action is not None:
            assert action is not None
            readings.insert(1, Reading.through(self.action, action, frozen=frozen))
        q: Tensor = self.heads(readings, heads, frozen=frozen)  # (E, N, outputs)
        q = q.view(q.shape[0], *observation.shape[:2], -1)
        return q if self.action is None else q.squeeze(-1)

    def context_parameters(self, scope: LrScope) -> Iterable[Tensor]:
        return self.trunk.parameters_of(scope)
