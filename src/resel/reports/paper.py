"""The paper's numbers, to stand beside ours."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

from resel.experiments.paper_numbers import same_task

_TABLES = ("tables.csv", "released_results.csv")


@dataclass(frozen=True)
class PaperNumber:
    """The return of one method on one task after so many steps."""

    task: str
    method: str
    steps: int | None
    mean: float
    error: float | None
    source: str


def paper_folder() -> Traversable:
    """Where the package keeps the numbers of the paper."""
    return resources.files("resel") / "experiments" / "paper"


def read_paper(folder: Traversable | None = None) -> list[PaperNumber]:
    """All returns that the paper and its authors report; none if the tables are not there."""
    where = paper_folder() if folder is None else folder
    numbers = []
    for name in _TABLES:
        table = where / name
        if table.is_file():
            rows = csv.DictReader(table.read_text(encoding="utf-8").splitlines())
            # Besides returns there are averages over tasks and, after a bar, measured times.
            numbers += [_number(row) for row in rows if re.fullmatch(r"[\w-]+-v\d+", row["env"])]
    return numbers


def numbers_for(task: str, numbers: list[PaperNumber]) -> list[PaperNumber]:
    """Those of one task, the longest training first and then the best method."""
    found = [n for n in numbers if same_task(task, n.task)]
    return sorted(found, key=lambda n: (-(n.steps or 0), -n.mean))


def _number(row: dict[str, str]) -> PaperNumber:
    error = float(row["stderr"]) if row["stderr"] else None
    steps = int(float(row["step"])) if row["step"] else None
    return PaperNumber(row["env"], row["method"], steps, float(row["mean"]), error, row["table"])
