"""What is written down while training goes on: lines of training, of timing, and events."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from resel.data import Batch, ReplayBuffer
from resel.errors import DamagedFileError
from resel.training.clock import Clock
from resel.training.validation import flag, maybe, whole

Values = Mapping[str, float | str]
MMER_EPISODES = 100
"""Consecutive episodes of training whose mean return is taken."""


class MetricsWriter(Protocol):
    """Takes what is measured."""

    def write(self, kind: str, step: int, values: Values) -> None:
        """One line."""


class Mark(NamedTuple):
    """Where the clock stood at a line of timing."""

    time: float
    step: int
    updates: int


class TrainLog:
    """Collects metrics of single updates and the returns of episodes into lines.

    A line of training is due every so many steps and complete some updates later. The return in it
    is the mean of the episodes since the line before; while none has ended, it stays as it was.
    `mmer` is POPGym's figure: the largest mean return of 100 consecutive episodes so far.
    """

    def __init__(self) -> None:
        self.writer: MetricsWriter | None = None
        self.last_return: float | None = None
        self.mmer: float | None = None
        self.metrics: Mapping[str, float] = {}
        """The last line of training."""
        self._recent: deque[float] = deque(maxlen=MMER_EPISODES)
        self._total, self._count, self._logged = 0.0, 0, False
        self._metrics: dict[str, float] = {}
        self._updates_left, self._step = 0, 0
        self._early_events: list[Values] = []
        self._held: list[tuple[str, int, Values]] | None = None

    def add_return(self, value: float) -> None:
        """Take in a finished episode of training."""
        if self._logged:
            self._total, self._count, self._logged = 0.0, 0, False
        self.last_return = value
        self._total += value
        self._count += 1
        self._recent.append(value)
        if len(self._recent) == MMER_EPISODES:
            mean = math.fsum(self._recent) / MMER_EPISODES
            self.mmer = mean if self.mmer is None else max(self.mmer, mean)

    def begin_line(self, step: int, updates: int) -> None:
        """A line is due, made of the metrics of the next updates."""
        self._step, self._updates_left = step, updates

    @property
    def wants_metrics(self) -> bool:
        """Whether the next update is to measure itself."""
        return self._updates_left > 0

    def add_metrics(
        self, metrics: Mapping[str, Tensor | float], batch: Batch, buffer: ReplayBuffer, count: int
    ) -> bool:
        """Take in an update that was to measure itself; True if that made the line complete.

        `count` is how many episodes have ended so far.
        """
        self._metrics |= {name: float(value) for name, value in metrics.items()}
        self._updates_left -= 1
        if self._updates_left:
            return False
        values, self._metrics = self._metrics, {}
        values["padding_share"] = batch.padding / batch.is_first.numel()
        values["batch_steps"] = batch.steps
        values["buffer_steps"] = buffer.steps
        if self._count:
            values["episode_return"] = self._total / self._count
            self._logged = True
        if self.mmer is not None:
            values["mmer"] = self.mmer
        values["episodes"] = count
        self.metrics = values
        self.write("train", self._step, values)
        return True

    def timing(self, mark: Mark, step: int, updates: int, clock: Clock) -> Mark:
        """Write how fast it went since the mark; the mark for the next time."""
        now = Mark(time.monotonic(), step, updates)
        elapsed = max(now.time - mark.time, 1e-9)
        rates = {
            "updates_per_second": (updates - mark.updates) / elapsed,
            "steps_per_second": (step - mark.step) / elapsed,
        }
        known = {name: value for name, value in clock.state().items() if value is not None}
        self.write("timing", step, rates | known)
        return now

    def write(self, kind: str, step: int, values: Values) -> None:
        """One line, if anybody takes it down; behind those that are held back."""
        if self._held is not None:
            self._held.append((kind, step, dict(values)))
        else:
            self.insert(kind, step, values)

    def insert(self, kind: str, step: int, values: Values) -> None:
        """The same before those that are held back."""
        if self.writer is not None:
            self.writer.write(kind, step, values)

    def hold(self) -> None:
        """Hold further lines back until `release`: one that belongs before them is not there."""
        self._held = self._held or []

    def release(self) -> None:
        """Write what was held back, and nothing is any more."""
        self.show_held()
        self._held = None

    def show_held(self) -> None:
        """Write what was held back, at the end of a run that may go on from a checkpoint."""
        held = self._held or []
        while held:
            self.insert(*held[0])
            del held[0]

    def event(self, step: int, event: Values) -> None:
        """One event; kept until there is somebody to take it down."""
        if self.writer is None:
            self._early_events.append(event)
        self.write("event", step, event)

    def write_early_events(self, step: int) -> None:
        """Write the events of the time before there was a writer."""
        for event in self._early_events:
            self.write("event", step, event)
        self._early_events.clear()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything the next lines depend on."""
        return {}, {
            "last_return": self.last_return,
            "mmer": self.mmer,
            "recent": list(self._recent),
            "total": self._total,
            "count": self._count,
            "logged": self._logged,
            "updates_left": self._updates_left,
            "step": self._step,
            "metrics": {  # JSON has no NaN
                k: v if math.isfinite(v) else str(v) for k, v in self._metrics.items()
            },
            **({} if self._held is None else {"held": [_plain(*line) for line in self._held]}),
        }

    def restore(self, tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> None:
        """Take over what `state` gave; older checkpoints have no returns of single episodes."""
        mmer = maybe(document, "mmer") if "mmer" in document else None
        recent = [float(value) for value in document.get("recent", ())]
        if len(recent) > MMER_EPISODES:
            raise DamagedFileError(f"The checkpoint's recent holds {len(recent)} returns.")
        metrics = {str(k): float(v) for k, v in document["metrics"].items()}
        self.last_return, self._total = maybe(document, "last_return"), float(document["total"])
        self._count, self._logged = whole(document, "count"), flag(document, "logged")
        self._updates_left, self._step = whole(document, "updates_left"), whole(document, "step")
        held = document.get("held")
        self._held = None if held is None else [(str(k), int(s), dict(v)) for k, s, v in held]
        self._metrics, self.mmer = metrics, mmer
        self._recent = deque(recent, maxlen=MMER_EPISODES)


def _plain(kind: str, step: int, values: Values) -> list[Any]:
    """A line as JSON has it, which has no NaN."""
    finite = {
        k: v if isinstance(v, str | int) or math.isfinite(v) else str(v) for k, v in values.items()
    }
    return [kind, step, finite]
