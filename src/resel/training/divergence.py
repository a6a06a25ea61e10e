"""Numerical faults: from a step that is left out to a run that is given up.

1. An environment that returns something not finite is refused where it is stepped.
2. The learner looks at the loss and the gradient norms of every step of its optimisers,
3. and leaves out a step where they are not finite.
4. When that happens `PATIENCE` times in a row, training has diverged. So it has, for a run that may
   go back, when a gradient norm is `SPIKE` times its running median.
5. A run that may go back returns to its last good checkpoint and draws other batches from there,
   `ROLLBACKS` times at most.

The learner's record is read now and then, so the last two happen up to `READ_EVERY` updates late.
What is found does not depend on when it is read.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from resel.data import EpisodeSlice, ReplayBuffer
from resel.errors import DamagedFileError, DivergedError
from resel.optim import READ_EVERY, StepCheck

PATIENCE = 10
"""Steps of one network left out in a row that mean divergence."""
SPIKE = 100.0
"""Times its running median at which a gradient norm counts as a spike."""
WINDOW = 200
"""Steps of the running median; before there are as many, nothing is a spike."""
ROLLBACKS = 2
"""Times that a run may go back to a checkpoint."""

Event = Mapping[str, str | float]


@dataclass
class _Burst:
    """Steps of one network that were left out, one after the other."""

    first: int
    last: int
    count: int
    episodes: list[int]


class _Median:
    """The median of the last numbers."""

    def __init__(self, values: Iterable[float] = ()) -> None:
        self.values = deque(values, WINDOW)
        self._sorted = sorted(self.values)

    def add(self, value: float) -> None:
        if len(self.values) == WINDOW:
            del self._sorted[bisect_left(self._sorted, self.values[0])]
        self.values.append(value)
        insort(self._sorted, value)

    def exceeded_by(self, value: float) -> bool:
        return len(self.values) == WINDOW and value > SPIKE * self.value

    @property
    def value(self) -> float:
        return self._sorted[len(self._sorted) // 2]


class DivergenceMonitor:
    """Judges the steps of the learner.

    `record` takes down what happens, `remedy` is advice for the network that has diverged.
    """

    def __init__(
        self,
        goes_back: bool,
        record: Callable[[Event], None],
        remedy: Callable[[str], str] = lambda network: "",
    ) -> None:
        self._goes_back, self._record, self._remedy = goes_back, record, remedy
        self.skipped = 0
        """Updates in which a step was left out."""
        self.rollbacks = 0
        """Times that the run went back to a checkpoint."""
        self._batches: deque[tuple[int, Sequence[int], int]] = deque(maxlen=READ_EVERY)
        self._forget()

    def _forget(self) -> None:
        self._last_skipped = 0
        self._bursts: dict[str, _Burst] = {}
        self._medians: dict[str, _Median] = {}
        self._spiking: set[str] = set()
        self._events: list[Event] = []
        self._verdict: str | None = None
        self._batches.clear()

    @property
    def has_verdict(self) -> bool:
        """Whether `act` will raise."""
        return self._verdict is not None

    def remember(self, update: int, origins: Sequence[int], episodes: int) -> None:
        """Keep what an update learned from, and how many episodes had ended by then."""
        self._batches.append((update, origins, episodes))

    def judge(self, steps: Iterable[StepCheck], buffer: ReplayBuffer, episodes: int) -> None:
        """Take in the steps that the learner recorded; `act` draws the consequences."""
        for step in steps:
            if step.finite:
                self._end_burst(step.network)
                self._watch(step, lambda update: self._episodes_of(update, buffer, episodes))
                continue
            burst = self._bursts.setdefault(step.network, _Burst(step.update, step.update, 0, []))
            burst.last = step.update
            burst.count += 1
            burst.episodes += self._episodes_of(step.update, buffer, episodes)
            self.skipped += step.update != self._last_skipped
            self._last_skipped = step.update
            if burst.count == PATIENCE:
                self._decide(
                    f"the loss or gradient of the {step.network} was not finite in "
                    f"{PATIENCE} updates in a row, up to update {step.update}",
                    step.network,
                )
        self._batches.clear()

    def _watch(self, step: StepCheck, episodes_of: Callable[[int], list[int]]) -> None:
        for name, norm in step.norms.items():
            group = f"{step.network}/{name}"
            median = self._medians.setdefault(group, _Median())
            spiking = median.exceeded_by(norm)
            if spiking and group not in self._spiking:
                self._spiking.add(group)
                self._events.append(
                    {
                        "event": "gradient spike",
                        "group": group,
                        "update": step.update,
                        "norm": norm,
                        "median": median.value,
                        "episodes": _listed(episodes_of(step.update)),
                    }
                )
                if self._goes_back:
                    self._decide(
                        f"the gradient norm of {group} was {norm:.3g} at update {step.update}, "
                        f"where {median.value:.3g} is usual",
                        step.network,
                    )
            elif not spiking:
                self._spiking.discard(group)
            median.add(norm)

    def _decide(self, verdict: str, network: str) -> None:
        if self._verdict is None:
            self._verdict = f"{verdict}. {self._remedy(network)}".rstrip()

    def _end_burst(self, network: str) -> None:
        burst = self._bursts.pop(network, None)
        if burst is not None:
            self._events.append(
                {
                    "event": "updates skipped",
                    "network": network,
                    "first_update": burst.first,
                    "last_update": burst.last,
                    "count": burst.count,
                    "episodes": _listed(burst.episodes),
                }
            )

    def _episodes_of(self, update: int, buffer: ReplayBuffer, episodes: int) -> list[int]:
        """The episodes an update learned from, counted from 1 as they ended, if still held."""
        for number, origins, by_then in self._batches:
            if number == update:
                slots = sorted(origins)
                return [
                    found
                    for found, held in enumerate(buffer, episodes - len(buffer) + 1)
                    if found <= by_then and _any_within(slots, held)
                ]
        return []

    def act(self, step: int) -> None:
        """Record what was found, and raise if training has diverged."""
        verdict, self._verdict = self._verdict, None
        if verdict is not None:
            for network in list(self._bursts):
                self._end_burst(network)
        events, self._events = self._events, []
        for event in events:
            self._record(event)
        if verdict is not None:
            raise DivergedError(f"Training has diverged at step {step}: {verdict}")

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything the next judgement depends on; no tensors."""
        return {}, {
            "calm": not (self._bursts or self._spiking or self._verdict),
            "skipped": self.skipped,
            "rollbacks": self.rollbacks,
            "last_skipped": self._last_skipped,
            "bursts": [[network, asdict(burst)] for network, burst in self._bursts.items()],
            "norms": [[group, list(median.values)] for group, median in self._medians.items()],
            "spiking": sorted(self._spiking),
            "events": [dict(event) for event in self._events],
            "verdict": self._verdict,
        }

    def restore(self, tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> None:
        """Take over what `state` gave."""
        self._forget()
        bool(document["calm"])  # read when a run goes back, and missed now if it is not there
        self.skipped, self.rollbacks = int(document["skipped"]), int(document["rollbacks"])
        self._last_skipped = int(document["last_skipped"])
        self._bursts = {network: _Burst(**burst) for network, burst in document["bursts"]}
        self._medians = {group: _Median(norms) for group, norms in document["norms"]}
        self._spiking = set(document["spiking"])
        self._events = list(document["events"])
        self._verdict = document["verdict"]


def is_good(
    tensors: Mapping[str, Mapping[str, Tensor]],
    documents: Mapping[str, Any],
    evaluated_at: int | None,
) -> bool:
    """Whether a run may go back to this checkpoint.

    All optimiser states are finite (weights are looked at when they are loaded), no trouble was
    under way, and the policy has passed an evaluation since, the last one being `evaluated_at`.
    """
    try:
        calm = bool(documents["monitor"]["calm"])
        passed = evaluated_at is None or int(documents["loop"]["step"]) <= evaluated_at
        moments = [
            tensor for name, tensor in tensors["learner"].items() if name.startswith("optimizer.")
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFileError(f"The checkpoint lacks {error}: it cannot be used.") from error
    return calm and passed and all(bool(torch.isfinite(tensor).all()) for tensor in moments)


def _any_within(slots: Sequence[int], episode: EpisodeSlice) -> bool:
    """Whether one of the steps, in rising order, belongs to the episode."""
    next_one = bisect_left(slots, episode.begin)
    return next_one < len(slots) and slots[next_one] <= episode.begin + episode.length


def _listed(episodes: Iterable[int]) -> str:
    return " ".join(map(str, sorted(set(episodes))))
