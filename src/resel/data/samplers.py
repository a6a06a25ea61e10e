"""How a batch is drawn from the buffer: each way is a small record that a method chooses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from resel.data.buffer import ReplayBuffer
from resel.data.packing import Batch, pack
from resel.data.priorities import Priorities

SuitableRows = Callable[[Sequence[int]], int]
"""From the lengths of pieces to the rows they should be laid out in: the encoder's to say."""


class Sampler(Protocol):
    """Draws batches; `rng` is the only source of chance. As a string it says what is in one."""

    def draw(
        self, buffer: ReplayBuffer, rng: np.random.Generator, suitable_rows: SuitableRows
    ) -> Batch:
        """A batch from a buffer that holds at least one episode."""


@dataclass(frozen=True)
class Trajectories:
    """Different whole trajectories until they hold at least `steps` steps.

    `by_count` takes at least as many as would hold them at the mean length of those stored.
    """

    steps: int
    by_count: bool = False

    def __str__(self) -> str:
        return f"whole episodes until there are {self.steps:,} steps"

    def draw(
        self, buffer: ReplayBuffer, rng: np.random.Generator, suitable_rows: SuitableRows
    ) -> Batch:
        least = math.ceil(self.steps * len(buffer) / buffer.steps) if self.by_count else 1
        slices = buffer.sample(self.steps, rng, least)
        return pack(buffer, slices, suitable_rows([piece.length + 1 for piece in slices]))


@dataclass(frozen=True)
class Episodes:
    """`count` different whole episodes, or all there are."""

    count: int

    def __str__(self) -> str:
        return f"{self.count:,} whole episodes"

    def draw(
        self, buffer: ReplayBuffer, rng: np.random.Generator, suitable_rows: SuitableRows
    ) -> Batch:
        slices = buffer.sample(0, rng, self.count)
        return pack(buffer, slices, suitable_rows([piece.length + 1 for piece in slices]))


@dataclass(frozen=True)
class WindowsBySteps:
    """Windows of `length` steps, episodes in proportion to theirs, until there are `steps`."""

    length: int
    steps: int

    def __str__(self) -> str:
        return f"windows of {self.length:,} steps until there are {self.steps:,} steps"

    def draw(
        self, buffer: ReplayBuffer, rng: np.random.Generator, suitable_rows: SuitableRows
    ) -> Batch:
        slices = buffer.sample_windows(self.steps, self.length, rng)
        return pack(buffer, slices, suitable_rows([piece.length + 1 for piece in slices]))


@dataclass(frozen=True)
class Windows:
    """`count` windows of `length` steps, uniform over all their starts.

    An episode of L >= length steps has L - length + 1 starts; a shorter one has one and is taken
    whole. Up to `burn_in` steps before a window are read as well, and do not count.
    """

    count: int
    length: int
    burn_in: int = 0

    def __str__(self) -> str:
        before = f" after up to {self.burn_in:,} that are only read" if self.burn_in else ""
        return f"{self.count:,} windows of {self.length:,} steps{before}"

    def draw(
        self, buffer: ReplayBuffer, rng: np.random.Generator, suitable_rows: SuitableRows
    ) -> Batch:
        slices = buffer.uniform_windows(self.count, self.length, rng, self.burn_in)
        return pack(buffer, slices, suitable_rows([piece.length + 1 for piece in slices]))


@dataclass(frozen=True)
class Histories:
    """`count` single steps, uniform over all, each behind the steps before it: `length` in all.

    Those before it are there to be read and do not count; an episode's beginning has fewer.
    """

    count: int
    length: int

    def __str__(self) -> str:
        return f"{self.count:,} single steps, each with a history of {self.length:,}"

    def draw(
        self, buffer: ReplayBuffer, rng: np.random.Generator, suitable_rows: SuitableRows
    ) -> Batch:
        slices = buffer.sample_histories(self.count, self.length, rng)
        batch = pack(buffer, slices, suitable_rows([piece.length + 1 for piece in slices]))
        counts = batch.mask.clone()
        counts[:, :-1] &= ~batch.mask[:, 1:]
        return replace(batch, mask=counts, steps=len(slices))


@dataclass(frozen=True)
class Transitions:
    """`count` single steps with the observations before and after, uniform over all steps.

    A row each, two steps long: the second serves the target alone.
    """

    count: int

    def __str__(self) -> str:
        return f"{self.count:,} single steps"

    def draw(
        self, buffer: ReplayBuffer, rng: np.random.Generator, suitable_rows: SuitableRows
    ) -> Batch:
        return single_steps(buffer, *buffer.sample_steps(self.count, rng))


@dataclass(frozen=True)
class PrioritizedTransitions:
    """The same, each step drawn in proportion to its priority."""

    count: int
    priorities: Priorities

    def __str__(self) -> str:
        return f"{self.count:,} single steps, by their priorities"

    def draw(
        self, buffer: ReplayBuffer, rng: np.random.Generator, suitable_rows: SuitableRows
    ) -> Batch:
        at = self.priorities.draw(buffer, self.count, rng)
        return single_steps(buffer, at, buffer.ended_worlds(at))


def single_steps(
    buffer: ReplayBuffer, at: NDArray[np.int64], terminated: NDArray[np.bool_]
) -> Batch:
    """Rows of two steps from these slots of the ring; where the world ended after the first."""
    count = len(at)
    both = at[:, None] + np.arange(2)  # (count, 2)
    first = np.zeros((count, 2), np.bool_)
    first[:, 0] = True
    action = np.zeros((count, 2, buffer.actions.shape[1]), np.float32)
    reward, ended = np.zeros((2, count, 2), np.float32)
    action[:, 0], reward[:, 0], ended[:, 0] = buffer.actions[at], buffer.rewards[at], terminated
    return Batch(
        torch.from_numpy(buffer.observations[both]),
        torch.from_numpy(action),
        torch.from_numpy(reward),
        torch.from_numpy(ended),
        torch.from_numpy(first),
        torch.from_numpy(first.copy()),
        steps=count,
        padding=0,
        origins=tuple(at.tolist()),
        extras={name: torch.from_numpy(column[both]) for name, column in buffer.columns.items()},
    )


@dataclass(frozen=True)
class NewestEpisodes:
    """The newest whole episodes that together hold at least `steps` steps: the last rollout."""

    steps: int

    def __str__(self) -> str:
        return f"the newest episodes until there are {self.steps:,} steps"

    def draw(
        self, buffer: ReplayBuffer, rng: np.random.Generator, suitable_rows: SuitableRows
    ) -> Batch:
        slices = buffer.newest(self.steps)
        return pack(buffer, slices, suitable_rows([piece.length + 1 for piece in slices]))
