"""The numbers the paper prints, to stand beside ours."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class Printed:
    """One cell of a table of the paper."""

    task: str
    step: int | None
    method: str
    mean: float
    error: float | None


def paper_table(table: str) -> list[Printed]:
    """A table of the paper by its label; averages over tasks are left out."""
    folder = resources.files("resel") / "experiments" / "paper"
    rows = csv.DictReader((folder / "tables.csv").read_text(encoding="utf-8").splitlines())
    return [
        Printed(
            row["env"],
            int(row["step"]) if row["step"] else None,
            row["method"],
            float(row["mean"]),
            float(row["stderr"]) if row["stderr"] else None,
        )
        for row in rows
        if row["table"] == table and not row["env"].startswith("Average")
    ]


def same_task(ours: str, papers: str) -> bool:
    """Whether two names mean one task: the paper's gravity tasks are called v2, ours v0."""
    return re.sub(r"-v\d+$", "", ours) == re.sub(r"-v\d+$", "", papers)
