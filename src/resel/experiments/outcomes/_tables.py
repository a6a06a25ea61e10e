"""Tables of final returns, a row for each method on each task, with the paper's numbers beside."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from resel.analysis.paper import PaperNumber, paper_table, same_task
from resel.analysis.statistics import interquartile_estimate, mean_and_error
from resel.experiments._settings import Experiment, Study
from resel.experiments.outcomes._curves import write_rows
from resel.experiments.outcomes._fairness import (
    FAIRNESS,
    PRIVILEGE_COLUMNS,
    PRIVILEGES,
    privileges,
    privileges_of,
)
from resel.experiments.outcomes._markdown import page, score, short
from resel.experiments.outcomes._reading import RunData, grouped

Row = dict[str, Any]
Marks = Sequence[int | None]
_SCORES = ("mean", "standard_error", "iqm", "iqm_low", "iqm_high")
_COLUMNS = (
    *("task", "step", "method", *_SCORES, "runs", "diverged", "paper", "paper_error"),
    *PRIVILEGE_COLUMNS,
)
_RESEL = "RESeL"


def make_table(
    experiment: Experiment, study: Study, runs: Sequence[RunData], folder: Path
) -> list[str]:
    """table.csv and table.md: our rows, then the rows that only the paper has."""
    printed, marks = paper_table(experiment.table or ""), study.marks or (None,)
    ours = [*_ours(runs, marks, printed), *_averages(runs, marks, printed)]
    rows = [*ours, *_only_in_paper(ours, printed)]
    order = {task: place for place, task in enumerate(dict.fromkeys(r["task"] for r in rows))}
    rows.sort(key=lambda row: (order[row["task"]], row["step"]))  # and else as they are
    write_rows(folder / "table.csv", rows, _COLUMNS)
    (folder / "table.md").write_text(_markdown(experiment, rows), encoding="utf-8")
    return ["table.csv", "table.md"]


def _cells(runs: Sequence[RunData]) -> dict[str, dict[str, list[RunData]]]:
    """The runs of each method on each task."""
    by_task = grouped(runs, lambda run: run.member.setting.task)
    return {t: grouped(own, lambda run: run.member.setting.group) for t, own in by_task.items()}


def _ours(runs: Sequence[RunData], marks: Marks, printed: Sequence[PaperNumber]) -> Iterator[Row]:
    for task, methods in _cells(runs).items():
        for mark in marks:
            for method, here in methods.items():
                values = _scores(here, mark)
                scores = (*mean_and_error(values), *interquartile_estimate([values]))
                step = here[0].member.steps if mark is None else mark
                row: Row = {"task": task, "step": step, "method": method}
                row |= dict(zip(_SCORES, scores, strict=True))
                row |= {"runs": len(values), "diverged": _lost(here, mark)}
                row |= privileges_of(here)
                yield row | _printed(task, step, method, printed)


def _scores(runs: Sequence[RunData], mark: int | None) -> list[float]:
    return [v for run in runs if (v := run.value_at("return", mark)) is not None]


def _lost(runs: Sequence[RunData], mark: int | None) -> int:
    """How many diverged before the mark."""
    lost = [run for run in runs if run.status == "diverged"]
    return len(lost) - len(_scores(lost, mark))


def _averages(
    runs: Sequence[RunData], marks: Marks, printed: Sequence[PaperNumber]
) -> Iterator[Row]:
    """Of each method over all tasks that were run, if the paper has them too, then as a share of
    the paper's RESeL.

    Returns of different tasks have different sizes, so that only the shares have an interquartile
    mean; its interval draws runs again within each task.
    """
    cells = _cells(runs)
    for mark in marks:
        for method in dict.fromkeys(run.member.setting.group for run in runs):
            own = {task: methods[method] for task, methods in cells.items() if method in methods}
            scores = {task: _scores(here, mark) for task, here in own.items()}
            if len(own) < 2 or len(own) < len(cells) or not all(scores.values()):
                continue
            step = next(iter(own.values()))[0].member.steps if mark is None else mark
            known = {task: _printed(task, step, _RESEL, printed) for task in own}
            if not all(known.values()):
                continue
            best = {task: float(found["paper"]) for task, found in known.items()}
            paper = {task: _printed(task, step, method, printed).get("paper") for task in own}
            about: Row = {"step": step, "method": method, "runs": sum(map(len, scores.values()))}
            about["diverged"] = _lost([run for here in own.values() for run in here], mark)
            yield _average(scores, paper) | about | {"task": f"Average of {len(own)}"}
            shares = {task: [v / best[task] for v in values] for task, values in scores.items()}
            papers = {t: None if v is None else v / best[t] for t, v in paper.items()}
            share = _average(shares, papers)
            share |= dict(zip(_SCORES[2:], interquartile_estimate([*shares.values()]), strict=True))
            yield share | about | {"task": "Share of the paper's RESeL"}


def _average(scores: Mapping[str, list[float]], paper: Mapping[str, float | None]) -> Row:
    """Every task counts as much as every other, however many runs it has."""
    means, errors = zip(*map(mean_and_error, scores.values()), strict=True)
    row: Row = {"mean": fmean(means), "standard_error": math.hypot(*errors) / len(errors)}
    known = [value for value in paper.values() if value is not None]
    return row | ({"paper": fmean(known)} if len(known) == len(paper) else {})


def _printed(task: str, step: int, method: str, printed: Sequence[PaperNumber]) -> Row:
    """What the paper says of a method on a task."""
    for p in printed:
        if same_task(task, p.task) and (step, method) == (p.step, p.method):
            return {"paper": p.mean, "paper_error": p.error}
    return {}


def _only_in_paper(rows: Sequence[Row], printed: Sequence[PaperNumber]) -> Iterator[Row]:
    """Under our names of the tasks, so that they stand with our rows."""
    for p in printed:
        ours = [row for row in rows if same_task(row["task"], p.task)]
        if not any((row["step"], row["method"]) == (p.step, p.method) for row in ours):
            task = ours[0]["task"] if ours else p.task
            row: Row = {"task": task, "step": p.step, "method": p.method}
            yield row | {"paper": p.mean, "paper_error": p.error}


def _markdown(experiment: Experiment, rows: Sequence[Row]) -> str:
    head = (
        *("task", "steps", "method", "ours", "interquartile mean", "runs", "diverged", "paper"),
        *PRIVILEGES,
    )
    lines = []
    for row in rows:
        ours = ["-"] * 4
        if "mean" in row:
            spread = "-"
            if "iqm" in row:
                iqm, low, high = (short(row[name]) for name in _SCORES[2:])
                spread = f"{iqm} [{low}, {high}]"
            ours = [score(row["mean"], row["standard_error"]), spread]
            ours += [str(row["runs"]), str(row["diverged"])]
        paper = score(row.get("paper"), row.get("paper_error"))
        place = (row["task"], f"{row['step']:,}", row["method"])
        lines.append([*place, *ours, paper, *privileges(row)])
    about = "Mean ± standard error over runs that got there."
    return page(experiment.title, head, lines, about, FAIRNESS)
