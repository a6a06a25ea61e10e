"""The numbers that the paper and its authors report, to stand beside ours."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

_OWN, _SOLVED_SHARE = "RESeL", 0.9
_TABLES = ("tables.csv", "released_results.csv")


@dataclass(frozen=True)
class PaperNumber:
    """One cell of a table: the return of a method on a task, or after a bar what was measured."""

    task: str
    method: str
    step: int | None
    mean: float
    error: float | None
    table: str


def paper_folder() -> Traversable:
    """Where the package keeps the tables."""
    return resources.files("resel") / "analysis" / "paper_tables"


def read_paper() -> list[PaperNumber]:
    """All numbers but averages over tasks; a table that is not there has none."""
    files = [paper_folder() / name for name in _TABLES]
    texts = [file.read_text(encoding="utf-8") for file in files if file.is_file()]
    rows = [row for text in texts for row in csv.DictReader(text.splitlines())]
    return [_number(row) for row in rows if not row["env"].startswith("Average")]


def paper_table(table: str) -> list[PaperNumber]:
    """The numbers of one table, by its label in the paper."""
    return [number for number in read_paper() if number.table == table]


def numbers_for(task: str, numbers: Sequence[PaperNumber]) -> list[PaperNumber]:
    """Those of one task, the longest training first and then the best method."""
    found = [number for number in numbers if same_task(task, number.task)]
    return sorted(found, key=lambda number: (-(number.step or 0), -number.mean))


def paper_threshold(task: str) -> float | None:
    """Where a task of the paper counts as solved: 90 % of what RESeL has there after its longest
    training; None without such a number."""
    found = [number.mean for number in numbers_for(task, read_paper()) if number.method == _OWN]
    return _SOLVED_SHARE * found[0] if found else None


def same_task(ours: str, papers: str) -> bool:
    """Whether two names mean one task: the paper's gravity tasks are called v2, ours v0."""
    return re.sub(r"-v\d+$", "", ours) == re.sub(r"-v\d+$", "", papers)


def _number(row: dict[str, str]) -> PaperNumber:
    step = int(float(row["step"])) if row["step"] else None
    error = float(row["stderr"]) if row["stderr"] else None
    return PaperNumber(row["env"], row["method"], step, float(row["mean"]), error, row["table"])
