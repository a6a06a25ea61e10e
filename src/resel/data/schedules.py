"""When updates are due. A schedule only counts: it needs no state beyond the run's counters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from resel.data.trajectory import Trajectory


@dataclass(frozen=True)
class Moment:
    """Where a run stands after a step of all its environments."""

    before: int
    """Environment steps before it."""
    step: int
    """Environment steps after it."""
    finished_before: int
    """Steps of finished episodes before it."""
    finished: int
    """Steps of finished episodes after it."""
    ended: tuple[Trajectory, ...] = ()
    """The episodes that ended with it."""


class Schedule(Protocol):
    """Says how many updates a moment asks for."""

    def due(self, moment: Moment) -> int:
        """Updates to make now."""


@dataclass(frozen=True)
class PerStep:
    """So many updates for each environment step, whole ones as soon as they are complete."""

    updates: float
    after: int = 0
    """None before this many environment steps; they are not made up for."""

    def due(self, moment: Moment) -> int:
        if moment.step < self.after:
            return 0
        return math.floor(moment.step * self.updates) - math.floor(moment.before * self.updates)


@dataclass(frozen=True)
class PerEpisode:
    """Nothing during an episode; at its end so many updates for each of its steps."""

    updates: float

    def due(self, moment: Moment) -> int:
        made = math.floor(moment.finished_before * self.updates)
        return math.floor(moment.finished * self.updates) - made


@dataclass(frozen=True)
class PerRollout:
    """So many updates whenever the environments together have taken `steps` further steps."""

    steps: int
    updates: int = 1
    further: int = 0
    """Updates besides, once there are finished episodes of `after` steps together."""
    after: int = 0

    def due(self, moment: Moment) -> int:
        rollouts = moment.step // self.steps - moment.before // self.steps
        further = self.further if moment.finished >= max(self.after, 1) else 0
        return rollouts * (self.updates + further)


@dataclass(frozen=True)
class Pretrained:
    """`first` updates as soon as there is something to learn from, then those of `then`.

    They are made in parts, one for each step, between which a run can be stopped.
    """

    first: int
    made: Callable[[], int]
    """Updates made so far."""
    then: Schedule
    part: int = 1000
    after: int = 0
    """None before this many environment steps."""

    def due(self, moment: Moment) -> int:
        if moment.step < self.after:
            return 0
        moment = replace(moment, before=max(moment.before, self.after - 1))
        left = max(0, self.first - self.made())
        rest = replace(moment, before=moment.before + math.ceil(left / self.part))
        if rest.before >= moment.step:
            return min(left, self.part * (moment.step - moment.before))
        return left + self.then.due(rest)
