"""Policy, critics and value on the memories of two variational recurrent models.

    s_t = [h_t of the first model, h_t of the other, o_t, r_{t-1}]
    policy:  two MLPs, one for the mean and one for the log deviation
    critic:  Q(s_t, a_t);  value:  V(s_t)

Han et al. 2020. Their losses reach no model: they read memories as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from resel.config import Config, Count, at_least, scaled
from resel.networks.base import Network, PolicyNetwork, Shared
from resel.networks.distributions import SquashedGaussian
from resel.networks.encoders import State
from resel.networks.heads import CRITIC_BOUND, POLICY_BOUND, activated_mlp
from resel.networks.inputs import ContextInputs, Dimensions
from resel.networks.plain import InnerCritic, PlainSizes
from resel.networks.variational import SequenceModel


@dataclass(frozen=True)
class VRMNetwork(PlainSizes):
    """Sizes of models, policy, critics and value."""

    width: Count = scaled(256)
    """Width of the memory of each of the two models."""
    latents: Count = scaled(64)
    """Random variables of a model at each step."""
    model_width: Count = scaled(128)
    """Width of the hidden layers of the models."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "width", "latents", "model_width")

    @property
    def reward_input(self) -> bool:
        """Whether the last reward is read."""
        return True

    def model(self, config: Config, dims: Dimensions) -> SequenceModel:
        """One of the models."""
        scale = config.algorithm.reward_scale
        return SequenceModel(dims, self.width, self.latents, self.model_width, scale)


class Memories:
    """The two models side by side, as they are read."""

    def __init__(self, models: Sequence[SequenceModel], dims: Dimensions) -> None:
        self._models = models
        self.size = sum(model.memory_size for model in models) + dims.observation + 1

    def read(self, inputs: ContextInputs, is_first: Tensor) -> Tensor:
        """s_t (rows, length, S) over a packed sequence."""
        with torch.no_grad():
            found = [model(inputs, is_first) for model in self._models]
        return torch.cat([*found, self._models[0].seen(inputs)], -1)

    def step(self, inputs: ContextInputs, state: State) -> tuple[Tensor, State]:
        """s_t (rows, S) at one moment."""
        found: list[Tensor] = []
        after: list[Tensor] = []
        each = len(state) // len(self._models)
        with torch.no_grad():
            for i, model in enumerate(self._models):
                h, new = model.step(inputs, state[i * each : (i + 1) * each])
                found.append(h)
                after.extend(new)
        return torch.cat([*found, self._models[0].seen(inputs)], -1), tuple(after)

    def initial_state(self, rows: int) -> State:
        """The memories at the start of `rows` trajectories."""
        return tuple(part for model in self._models for part in model.initial_state(rows))


class VRMPolicy(PolicyNetwork):
    """pi(a | s_t)."""

    def __init__(self, dims: Dimensions, sizes: VRMNetwork, memories: Memories) -> None:
        super().__init__()
        self._memories, self._log_std_min = Shared(memories), sizes.log_std_min
        self.mean, self.log_std = (
            activated_mlp(
                memories.size,
                sizes.policy_widths,
                dims.action,
                sizes.activation,
                sizes.initialisation,
                POLICY_BOUND,
            )
            for _ in range(2)
        )

    def at(self, s: Tensor) -> SquashedGaussian:
        """The policy in these situations."""
        output = torch.cat([self.log_std(s), self.mean(s)], -1)
        return SquashedGaussian.from_output(output, self._log_std_min)

    def context(self, inputs: ContextInputs, is_first: Tensor) -> Tensor:
        """s_t at every step. (rows, length, S)"""
        return self._memories.held.read(inputs, is_first)

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> SquashedGaussian:
        return self.at(self.context(inputs, is_first))

    def step(self, inputs: ContextInputs, state: State) -> tuple[SquashedGaussian, State]:
        s, state = self._memories.held.step(inputs, state)
        return self.at(s), state

    def initial_state(self, rows: int) -> State:
        return self._memories.held.initial_state(rows)

    def suitable_rows(self, lengths: Sequence[int]) -> int:
        return len(lengths)  # side by side: the loop is then as long as one window


class VRMCritic(InnerCritic):
    """Q(s_t, a_t) of so many heads."""

    def __init__(self, dims: Dimensions, config: Config, memories: Memories, heads: int) -> None:
        super().__init__()
        self._memories = Shared(memories)
        sizes: VRMNetwork = config.network
        self.inside = sizes.critic(config, dims._replace(observation=memories.size), heads)

    def embed(self, inputs: ContextInputs, is_first: Tensor) -> Tensor:
        return self._memories.held.read(inputs, is_first)

    def embed_step(self, inputs: ContextInputs, state: State) -> tuple[Tensor, State]:
        s, state = self._memories.held.step(inputs, state)
        return s[:, None], state

    def initial_state(self, rows: int) -> State:
        return self._memories.held.initial_state(rows)


class VRMValue(Network):
    """V(s_t)."""

    def __init__(self, sizes: VRMNetwork, memories: Memories) -> None:
        super().__init__()
        how = (sizes.activation, sizes.initialisation)
        self.head = activated_mlp(memories.size, sizes.critic_widths, 1, *how, CRITIC_BOUND)

    def forward(self, s: Tensor) -> Tensor:  # (..., S) -> (...)
        value: Tensor = self.head(s)
        return value.squeeze(-1)
