"""What the outcomes read from run directories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from resel.analysis.runs import (
    Lines,
    Points,
    final_score,
    is_number,
    learned_since,
    lines_so_far,
    points,
    result_so_far,
)
from resel.experiments._settings import Measure
from resel.experiments.engines import Status
from resel.experiments.plan import Member

_Key = TypeVar("_Key")
_RECORDED = {
    "return": ("eval", "return_mean"),
    "success": ("eval", "success_rate"),
    "exploration": ("train", "episode_return"),
}


@dataclass(frozen=True)
class RunData:
    """A run of an experiment with all it recorded."""

    member: Member
    status: Status
    lines: Lines
    result: dict[str, Any] = field(default_factory=dict)
    """What its result.json says."""

    def points(self, measure: Measure) -> Points:
        """The curve of one measure along the steps; exploration is the noisy policy's returns."""
        return points(self.lines, *_RECORDED[measure])

    def value_at(self, measure: Measure, step: int | None = None) -> float | None:
        """The final score as of a step, as in result.json; None if the run did not get there."""
        steps, values = self.points(measure)
        if step is None:
            if self.status != "completed":
                return None
        elif not steps or steps[-1] < step:
            return None
        seen = zip(steps, values, strict=True)
        kept = (point for point in seen if step is None or point[0] <= step)
        return final_score(kept, learned_since(self.lines))

    def number(self, name: str) -> float | None:
        """A number of its result.json; None if that does not have it."""
        value: Any = self.result.get(name)
        return float(value) if is_number(value) else None


def completed(runs: Sequence[RunData]) -> list[RunData]:
    """Those that came to their end."""
    return [run for run in runs if run.status == "completed"]


def diverged(runs: Sequence[RunData]) -> int:
    """How many did not, because they diverged."""
    return sum(run.status == "diverged" for run in runs)


def grouped(runs: Sequence[RunData], key: Callable[[RunData], _Key]) -> dict[_Key, list[RunData]]:
    """Runs that have something in common, in the order of their appearance."""
    found: dict[_Key, list[RunData]] = {}
    for run in runs:
        found.setdefault(key(run), []).append(run)
    return found


def read_runs(members: Sequence[Member], status: dict[Path, Status]) -> list[RunData]:
    """All runs; those that cannot be read count as empty."""
    return [RunData(m, status[m.run], lines_so_far(m.run), result_so_far(m.run)) for m in members]
