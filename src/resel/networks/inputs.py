"""What networks read at a moment: the same for a step while acting and for a sequence."""

from __future__ import annotations

from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from resel.envs import ActionSpec, ImageShape, ObservationSpec, Run


class ContextInputs(NamedTuple):
    """What is known at each step before acting; each (..., size), zero where there is no past."""

    observation: Tensor
    last_observation: Tensor
    last_action: Tensor
    last_reward: Tensor


class Dimensions(NamedTuple):
    """Sizes a network is built for."""

    observation: int
    action: int
    discrete: bool
    images: tuple[ImageShape, ...] = ()
    """Those that an observation is or holds."""
    runs: tuple[Run, ...] = ()
    """How it is stored as bytes; nothing where it is stored as float32."""
    privileged: int = 0
    """Numbers that critics read beside the history and policies never do."""

    @classmethod
    def of(cls, observation: ObservationSpec, action: ActionSpec) -> Self:
        """Those of an environment."""
        return cls(
            observation.size, action.size, action.discrete, observation.images, observation.runs
        )

    @property
    def stored(self) -> tuple[int, torch.dtype]:
        """Entries of an observation as it is stored, and their type."""
        if not self.runs:
            return self.observation, torch.float32
        return sum(run.bytes for run in self.runs), torch.uint8

    def numbers(self, stored: Tensor) -> Tensor:
        """Observations as the numbers they stand for, from how they are stored: (..., O)."""
        if not self.runs or stored.dtype != torch.uint8:
            return stored
        parts = torch.split(stored, [run.bytes for run in self.runs], -1)
        # Copied, as the bytes of a float32 must begin where one can stand.
        return torch.cat(
            [
                part.float()
                if run.whole
                else part.clone(memory_format=torch.contiguous_format).view(torch.float32)
                for part, run in zip(parts, self.runs, strict=True)
            ],
            -1,
        )

    def fed_back(self, action: Tensor) -> Tensor:
        """Actions as networks read them, from how they are stored: (..., A).

        Box actions stay as they are, an index (..., 1) becomes one-hot.
        """
        if not self.discrete:
            return action
        return F.one_hot(action[..., 0].long(), self.action).to(action.dtype)

    def taken(self, action: Tensor) -> Tensor:
        """Stored actions as the critic takes them: Box values (..., A), or an index (...)."""
        return action[..., 0].long() if self.discrete else action


def sequence_inputs(
    observation: Tensor, fed_back: Tensor, reward: Tensor, is_first: Tensor
) -> ContextInputs:
    """Inputs over (rows, length) from what was seen, done and received there."""
    return ContextInputs(
        observation,
        previous(observation, is_first),
        previous(fed_back, is_first),
        previous(reward[..., None], is_first),
    )


def previous(x: Tensor, is_first: Tensor) -> Tensor:
    """x_{t-1} at step t, zero at the start of a trajectory."""
    shifted = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)
    return torch.where(is_first[..., None], torch.zeros_like(x), shifted)
