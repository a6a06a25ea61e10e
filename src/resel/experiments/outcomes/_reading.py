"""What the outcomes read from run directories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resel.errors import ReselError
from resel.experiments._settings import Measure
from resel.experiments.engines import Status
from resel.experiments.plan import Member
from resel.runs import read_metrics
from resel.training import final_evaluations

Points = tuple[list[float], list[float]]
"""Steps and values."""


@dataclass(frozen=True)
class RunData:
    """A run of an experiment with all it recorded."""

    member: Member
    status: Status
    lines: Sequence[dict[str, Any]]

    def points(self, measure: Measure) -> Points:
        """The curve of one measure along the steps; exploration is the noisy policy's returns."""
        kind, name = {
            "return": ("eval", "return_mean"),
            "success": ("eval", "success_rate"),
            "exploration": ("train", "episode_return"),
        }[measure]
        found = [
            (float(line["step"]), float(line[name]))
            for line in self.lines
            if line.get("kind") == kind and line.get(name) is not None
        ]
        return [step for step, _ in found], [value for _, value in found]

    def value_at(self, measure: Measure, step: int | None = None) -> float | None:
        """The final figure as of a step, as in result.json; None if the run did not get there."""
        steps, values = self.points(measure)
        if step is None:
            if self.status != "completed":
                return None
        elif not steps or steps[-1] < step:
            return None
        points = [p for p in zip(steps, values, strict=True) if step is None or p[0] <= step]
        chosen = [value for _, value in final_evaluations(points)]
        return sum(chosen) / len(chosen) if chosen else None


def read_runs(members: Sequence[Member], status: dict[Path, Status]) -> list[RunData]:
    """The runs that have recorded something; those that cannot be read count as empty."""
    found = []
    for member in members:
        try:
            lines = read_metrics(member.run / "metrics.jsonl")
        except ReselError:
            lines = []
        found.append(RunData(member, status[member.run], lines))
    return found
