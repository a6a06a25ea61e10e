"""The numbers of other libraries and benchmarks, to stand beside ours."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib import resources

POPGYM_STEPS = 15_000_000
"""Steps of training behind each number of POPGym."""
POPGYM_SOURCE = (
    "Published numbers are those of the POPGym paper (PPO, 15 M steps, three trials), as "
    "transcribed by a third party from its appendix B."
)


@dataclass(frozen=True)
class Anchor:
    """What another library reports for a task: one tuned agent over its evaluation episodes."""

    task: str
    method: str
    steps: int
    mean: float
    deviation: float
    source: str


@dataclass(frozen=True)
class PopgymNumber:
    """MMER on a task of POPGym: of a GRU over three trials, and of the best published memory."""

    gru_mmer: float
    gru_sd: float
    best_model: str
    best_mmer: float


def read_anchors() -> dict[str, Anchor]:
    """RecurrentPPO's numbers, by our names of the tasks."""
    return {
        row["task"]: Anchor(
            row["task"],
            row["method"],
            int(row["steps"]),
            float(row["mean"]),
            float(row["deviation"]),
            row["source"],
        )
        for row in _rows("recurrent_ppo.csv")
    }


def read_popgym() -> dict[str, PopgymNumber]:
    """POPGym's numbers, by our names of the tasks."""
    return {
        f"popgym-{row['task']}-v0": PopgymNumber(
            float(row["gru_mmer"]), float(row["gru_sd"]), row["best_model"], float(row["best_mmer"])
        )
        for row in _rows("popgym.csv")
    }


def _rows(name: str) -> list[dict[str, str]]:
    file = resources.files("resel") / "analysis" / "published_tables" / name
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
