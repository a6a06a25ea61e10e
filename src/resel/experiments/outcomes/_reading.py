"""What the outcomes read from run directories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from resel.analysis.runs import Lines, Points, final_score, lines_so_far, points
from resel.experiments._settings import Measure
from resel.experiments.engines import Status
from resel.experiments.plan import Member

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
        return final_score(point for point in seen if step is None or point[0] <= step)


def read_runs(members: Sequence[Member], status: dict[Path, Status]) -> list[RunData]:
    """All runs; those that cannot be read count as empty."""
    return [RunData(m, status[m.run], lines_so_far(m.run)) for m in members]
