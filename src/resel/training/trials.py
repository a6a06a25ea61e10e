"""Trials while training: which episode of which task each environment plays next, and from where.

An environment begins a trial with whatever task its seed leads to, and plays on in that task until
the last phase is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from resel.data import TASK, TRIAL, ReplayBuffer, Trajectory
from resel.envs import AnyEnv, Told
from resel.methods import Learner, Phase
from resel.networks import State
from resel.randomness import LARGEST_SEED

_TRIED = 16
"""Seeds among which two lead to different tasks, if there is more than one task."""
_ASKED = 4
"""How often each of two tasks is asked for: one that plays at random will not hit them all."""


def check_asking(env: AnyEnv, seed: int) -> None:
    """Refuse an environment that does not play the task it is asked for, before anything runs.

    Two tasks are asked for, one of them with a seed that leads to the other.
    """
    first = int(env.told[TASK][0])
    for number in range(_TRIED):
        own = (seed + number) % LARGEST_SEED
        env.reset(own)
        if int(env.told[TASK][0]) != first:
            break
    other = int(env.told[TASK][0])
    for task in (first, other) * _ASKED:
        env.reset(own, task)


class Place(NamedTuple):
    """Where an episode stands in its trial."""

    trial: int
    phase: int
    task: int | None
    """None for the first one, whose task is not known yet."""
    episodes: int
    """Of this phase before it."""
    steps: int
    """Of this phase before it, those of dropped episodes among them."""

    def known(self, told: Told) -> Place:
        """The same with the task that is really played."""
        return self._replace(task=int(told[TASK][0]))

    @property
    def column(self) -> NDArray[np.float32]:
        """What is stored beside the episode."""
        return np.array([self.trial, self.phase], np.float32)


class Trials:
    """The order of episodes, all of which follows from their places and the buffer."""

    def __init__(
        self,
        phases: Sequence[Phase],
        rows: int,
        learner: Learner,
        buffer: Callable[[], ReplayBuffer],
    ) -> None:
        self._phases, self._rows, self._learner, self._buffer = phases, rows, learner, buffer
        self.columns = {TRIAL: 2}
        self._kept: dict[int, tuple[int, int, State]] = {}
        """Trial, phase and memory by environment, where a phase keeps it."""

    def first(self, row: int) -> Place:
        """Where an environment begins."""
        return Place(row, 0, None, 0, 0)

    def cuts(self, place: Place, length: int) -> bool:
        """Whether an episode ends with this length, whatever the environment says."""
        return self._phases[place.phase].cuts(length, place.steps + length)

    def after(self, place: Place, length: int, *, dropped: bool) -> Place:
        """What follows an episode of this length; one that was dropped counts by its steps only."""
        episodes, steps = place.episodes + (not dropped), place.steps + length
        if not self._phases[place.phase].over(episodes, steps):
            return place._replace(episodes=episodes, steps=steps)
        if place.phase + 1 < len(self._phases):
            return Place(place.trial, place.phase + 1, place.task, 0, 0)
        return self.first(place.trial + self._rows)  # no other environment has that number

    def start(self, place: Place, generator: torch.Generator) -> State:
        """The memory an episode begins with, one row."""
        row, where = place.trial % self._rows, (place.trial, place.phase)
        if self._phases[place.phase].keeps and self._kept.get(row, ())[:2] == where:
            return self._kept[row][2]
        state = self._learner.start(self._played(place), generator)
        self._kept[row] = (*where, state)
        return state

    def forget(self) -> None:
        """Make every memory anew: the policy, or what was played, may not be what it was."""
        self._kept.clear()

    def _played(self, place: Place) -> list[Trajectory]:
        """The episodes of its trial from the phases before."""
        buffer = self._buffer()
        if not (place.phase and len(buffer)):
            return []
        told = buffer.told(TRIAL)
        assert told is not None
        earlier = (told[:, 0] == place.trial) & (told[:, 1] < place.phase)
        return [buffer.episode(i) for i in np.flatnonzero(earlier).tolist()]
