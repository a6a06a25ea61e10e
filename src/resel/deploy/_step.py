"""One step of a policy as a function of tensors alone, for whoever runs it without resel.

    obs, h_in, (c_in), (reward), (noise) --> actions, h_out, (c_out), (logits)

h is [last observation as normalised, last action as fed back, the memory's parts], c the cell state
of an LSTM. Zeros are the start of an episode.

Glossary
    B rows, O observation, A action, N numbers of h, M numbers of c
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from resel.envs import ActionSpec
from resel.errors import ConfigError
from resel.methods import Learner
from resel.networks import Categorical, ContextInputs, PolicyDistribution, encoder_spec


@dataclass(frozen=True)
class StatePart:
    """Some numbers of the state that belong together."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many there are."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class StepLayout:
    """What goes into a step and comes out of it."""

    observation: int
    action: int
    discrete: bool
    h: tuple[StatePart, ...]
    c: tuple[StatePart, ...]
    """Empty without an LSTM."""
    reward: bool
    """Whether the last reward is read."""
    stochastic: bool
    """Whether noise is read."""

    @property
    def h_size(self) -> int:
        """N."""
        return sum(part.size for part in self.h)

    @property
    def c_size(self) -> int:
        """M."""
        return sum(part.size for part in self.c)

    def inputs(self, rows: int) -> dict[str, tuple[int, ...]]:
        """Shapes of what is read, by name and in order."""
        shapes: dict[str, tuple[int, ...]] = {
            "obs": (rows, self.observation),
            "h_in": (1, rows, self.h_size),
        }
        if self.c:
            shapes["c_in"] = (1, rows, self.c_size)
        if self.reward:
            shapes["reward"] = (rows, 1)
        if self.stochastic:
            shapes["noise"] = (rows, self.action)
        return shapes

    @property
    def outputs(self) -> list[str]:
        """What comes out, in order."""
        names = ["actions", "h_out"]
        names += ["c_out"] if self.c else []
        return [*names, "logits"] if self.discrete else names

    @classmethod
    def of(cls, learner: Learner, *, stochastic: bool = False) -> StepLayout:
        """That of a learner's policy; refused where acting is more than one step of one network."""
        if learner.adaptation is not None:
            raise ConfigError(
                f"The method {learner.config.method} cannot be exported: before it acts in a task "
                "it adapts to it, by what it has played there, and an exported policy is one step "
                "of one network. Take a method that adapts by its memory alone."
            )
        dims, config = learner.dims, learner.config
        first = learner.evaluation_policy.initial_state(1)
        memory = [
            StatePart(f"memory_{number}", tuple(part.shape[1:]))
            for number, part in enumerate(first)
        ]
        lstm = config.encoder is not None and encoder_spec(config.encoder).cell_state
        # Some networks keep what an encoder is to read instead of its state.
        apart = lstm and len(memory) > 1 and memory[-1].shape == memory[-2].shape
        return cls(
            dims.observation,
            dims.action,
            dims.discrete,
            (
                StatePart("last_observation", (dims.observation,)),
                StatePart("last_action", (dims.action,)),
                *(memory[:-1] if apart else memory),
            ),
            tuple(memory[-1:]) if apart else (),
            bool(getattr(config.network, "reward_input", False)),
            stochastic,
        )


class PolicyStep(nn.Module):
    """A step of a learner's policy, with the scales of observations and actions inside."""

    def __init__(self, learner: Learner, action: ActionSpec, *, stochastic: bool = False) -> None:
        super().__init__()
        self.layout = StepLayout.of(learner, stochastic=stochastic)
        self._dims = learner.dims
        self.policy, self.normalizer = learner.evaluation_policy, learner.normalizer
        # A policy may read networks that it does not own.
        self.networks = nn.ModuleList(learner.networks.values())
        units = Choices(action) if action.discrete else Bounds(action)
        self.units = units.to(learner.device)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        given = dict(zip(self.layout.inputs(1), inputs, strict=True))
        observation = self.normalizer(given["obs"])
        last_observation, last_action, *memory = _split(given["h_in"], self.layout.h)
        cell = _split(given["c_in"], self.layout.c) if self.layout.c else []
        reward = given.get("reward", torch.zeros_like(observation[:, :1]))
        seen = ContextInputs(observation, last_observation, last_action, reward)
        policy, after = self.policy.step(seen, (*memory, *cell))
        chosen = _chosen(policy, given.get("noise"))
        inner = after[: len(memory)]
        h = [observation, self._dims.fed_back(chosen), *(part.flatten(1) for part in inner)]
        found = [self.units(chosen), torch.cat(h, -1)[None]]
        if cell:
            found.append(torch.cat([part.flatten(1) for part in after[len(memory) :]], -1)[None])
        if isinstance(policy, Categorical):
            found.append(policy.log_probs)
        return tuple(found)


class Bounds(nn.Module):
    """Box actions from [-1, 1], or beyond, to the environment's own within its bounds."""

    low: Tensor
    high: Tensor
    centre: Tensor
    reach: Tensor

    def __init__(self, action: ActionSpec) -> None:
        super().__init__()
        low, high = (
            np.asarray(action.to_env(np.full(action.size, end, np.float32)), np.float64).reshape(-1)
            for end in (-1, 1)
        )
        # Halved before they are joined, so that the widest bounds do not overflow.
        centre, reach = low / 2 + high / 2, high / 2 - low / 2
        for name, values in (("low", low), ("high", high), ("centre", centre), ("reach", reach)):
            self.register_buffer(name, torch.from_numpy(values.astype(np.float32)))

    def forward(self, action: Tensor) -> Tensor:  # (B, A) -> (B, A)
        value = self.centre + self.reach * action
        return torch.minimum(torch.maximum(value, self.low), self.high)


class Choices(nn.Module):
    """An index to the whole numbers that the environment takes."""

    table: Tensor

    def __init__(self, action: ActionSpec) -> None:
        super().__init__()
        rows = [np.asarray(action.to_env(index)).reshape(-1) for index in range(action.size)]
        self.register_buffer("table", torch.from_numpy(np.stack(rows).astype(np.int64)))

    def forward(self, index: Tensor) -> Tensor:  # (B, 1) -> (B, entries)
        return self.table.index_select(0, index[:, 0].long())


def _chosen(policy: PolicyDistribution, noise: Tensor | None) -> Tensor:
    """The action as it is stored; with Gumbel noise a Discrete one is drawn by its chances."""
    if noise is None:
        return policy.mode()
    if isinstance(policy, Categorical):
        return Categorical(policy.log_probs + noise).mode()
    return policy.explore(noise)


def _split(state: Tensor, parts: tuple[StatePart, ...]) -> list[Tensor]:
    """(1, B, N) -> the parts, (B, *shape) each."""
    flat = torch.split(state[0], [part.size for part in parts], -1)
    return [x.reshape(x.shape[0], *part.shape) for x, part in zip(flat, parts, strict=True)]
