"""Policy and critic of the paper: pre-encoders, context encoder, heads.

    o_t, o_{t-1}, a_{t-1}, (r_{t-1}) --pre-encoders--> context encoder --> context_t
    policy:  [embedding of o_t, context_t] --> distribution of a_t
    critic:  [embedding of o_t, embedding of a_t, context_t] --> one value per head

o_t is embedded twice, by separate layers; a_t enters only the critic's heads; policy and critic
share nothing. For Discrete actions the critic gives one value per action and embeds no a_t.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from resel.config import NetworkConfig
from resel.networks.distributions import (
    Categorical,
    PolicyDistribution,
    SquashedGaussian,
    hidden_layers,
    mlp,
    xavier_linear,
)
from resel.networks.encoders import State, build_encoder
from resel.networks.ensemble import EnsembleMLP


class ContextInputs(NamedTuple):
    """What is known at each place before acting; each (..., size), zero where there is no past."""

    observation: Tensor
    last_observation: Tensor
    last_action: Tensor
    last_reward: Tensor


class Dimensions(NamedTuple):
    """Sizes a network is built for."""

    observation: int
    action: int
    discrete: bool


class ContextEncoder(nn.Module):
    """Linear + ELU layers, recurrent block, ELU, linear: the part with its own learning rate."""

    def __init__(self, inputs: int, config: NetworkConfig) -> None:
        super().__init__()
        self.before = hidden_layers(inputs, config.width, config.input_layers)
        self.rnn = build_encoder(config)
        self.after = xavier_linear(config.width, config.embedding)

    def forward(self, x: Tensor, is_first: Tensor) -> Tensor:
        return self.after(F.elu(self.rnn(self.before(x), is_first)))  # type: ignore[no-any-return]

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        y, state = self.rnn.step(self.before(x), state)
        return self.after(F.elu(y)), state


class ContextTrunk(nn.Module):
    """Pre-encoders, one linear layer for each kind of input, and the context encoder."""

    def __init__(self, dims: Dimensions, config: NetworkConfig) -> None:
        super().__init__()
        self.observation = nn.Linear(dims.observation, config.embedding)
        self.last_observation = nn.Linear(dims.observation, config.embedding)
        self.last_action = nn.Linear(dims.action, config.embedding)
        self.last_reward = nn.Linear(1, config.embedding) if config.reward_input else None
        kinds = 4 if config.reward_input else 3
        self.context_encoder = ContextEncoder(kinds * config.embedding, config)

    def _embed(self, inputs: ContextInputs) -> Tensor:
        parts = [
            self.observation(inputs.observation),
            self.last_observation(inputs.last_observation),
            self.last_action(inputs.last_action),
        ]
        if self.last_reward is not None:
            parts.append(self.last_reward(inputs.last_reward))
        return torch.cat(parts, -1)

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> Tensor:
        """Context (rows, length, embedding) over a tape."""
        return self.context_encoder(self._embed(inputs), is_first)  # type: ignore[no-any-return]

    def step(self, inputs: ContextInputs, state: State) -> tuple[Tensor, State]:
        """Context (rows, embedding) at one moment."""
        return self.context_encoder.step(self._embed(inputs), state)

    def initial_state(self, rows: int) -> State:
        return self.context_encoder.rnn.initial_state(rows)


class Policy(nn.Module):
    """pi(a | history)."""

    def __init__(self, dims: Dimensions, config: NetworkConfig) -> None:
        super().__init__()
        self.discrete = dims.discrete
        self.probability_floor = config.probability_floor
        self.trunk = ContextTrunk(dims, config)
        self.observation = xavier_linear(dims.observation, config.embedding)
        outputs = dims.action if dims.discrete else 2 * dims.action
        self.head = mlp(2 * config.embedding, config.head_width, config.head_layers, outputs)

    def _distribution(self, observation: Tensor, context: Tensor) -> PolicyDistribution:
        output = self.head(torch.cat([self.observation(observation), context], -1))
        return (
            Categorical.from_output(output, self.probability_floor)
            if self.discrete
            else SquashedGaussian.from_output(output)
        )

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> PolicyDistribution:
        """Action distributions at every place of a tape."""
        return self._distribution(inputs.observation, self.trunk(inputs, is_first))

    def step(self, inputs: ContextInputs, state: State) -> tuple[PolicyDistribution, State]:
        """The action distribution at one moment, and the state for the next."""
        context, state = self.trunk.step(inputs, state)
        return self._distribution(inputs.observation, context), state

    def initial_state(self, rows: int) -> State:
        """The state at the start of `rows` trajectories."""
        return self.trunk.initial_state(rows)


class Critic(nn.Module):
    """Q(history, a), an ensemble of heads on one context encoder."""

    def __init__(self, dims: Dimensions, config: NetworkConfig) -> None:
        super().__init__()
        self.trunk = ContextTrunk(dims, config)
        self.observation = nn.Linear(dims.observation, config.embedding)
        self.action = None if dims.discrete else nn.Linear(dims.action, config.embedding)
        self.heads = EnsembleMLP(
            config.critics,
            (2 if dims.discrete else 3) * config.embedding,
            config.head_width,
            config.head_layers,
            dims.action if dims.discrete else 1,
        )

    def embed(self, inputs: ContextInputs, is_first: Tensor) -> tuple[Tensor, Tensor]:
        """Embedding of o_t and context_t, all that the heads need besides the action."""
        return self.observation(inputs.observation), self.trunk(inputs, is_first)

    def values(
        self,
        embedded: tuple[Tensor, Tensor],
        action: Tensor | None = None,
        heads: Tensor | None = None,
        *,
        frozen: bool = False,
    ) -> Tensor:
        """(E, rows, length) for Box actions, (E, rows, length, actions) for Discrete ones."""
        observation, context = embedded
        parts = [observation, context]
        if self.action is not None:
            assert action is not None
            weight, bias = self.action.weight, self.action.bias
            if frozen:
                weight, bias = weight.detach(), bias.detach()  # type: ignore[assignment]
            parts.insert(1, F.linear(action, weight, bias))
        flat = [part.flatten(0, 1) for part in parts]  # (N, embedding) each
        q: Tensor = self.heads(flat, heads, frozen=frozen)  # (E, N, outputs)
        q = q.view(q.shape[0], *observation.shape[:2], -1)
        return q if self.action is None else q.squeeze(-1)
