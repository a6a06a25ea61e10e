"""Tables of final returns with the paper's numbers beside ours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from resel.analysis.paper import PaperNumber, paper_table, same_task
from resel.analysis.statistics import interquartile_estimate, mean_and_error
from resel.experiments._settings import Experiment, Study
from resel.experiments.outcomes._curves import write_rows
from resel.experiments.outcomes._markdown import page, score, short
from resel.experiments.outcomes._reading import RunData

_OURS = ("task", "step", "mean", "standard_error", "iqm", "iqm_low", "iqm_high", "runs", "diverged")

_RESEL = "paper RESeL"


def make_table(
    experiment: Experiment, study: Study, runs: Sequence[RunData], folder: Path
) -> list[str]:
    """table.csv and table.md: a row for each of our tasks, then the paper's other rows."""
    printed = paper_table(experiment.table or "")
    methods = list(dict.fromkeys(cell.method for cell in printed))
    rows = [_with_paper(row, printed) for row in _ours(study, runs)]
    rows += _averages(study, runs, printed)
    rows += _only_in_paper(rows, printed)
    columns = [*_OURS]
    for method in methods:
        columns += [f"paper {method}", f"paper {method} error"]
    write_rows(folder / "table.csv", rows, columns)
    (folder / "table.md").write_text(_markdown(experiment, rows, methods), encoding="utf-8")
    return ["table.csv", "table.md"]


def _ours(study: Study, runs: Sequence[RunData]) -> list[dict[str, Any]]:
    rows = []
    for task in dict.fromkeys(run.member.setting.task for run in runs):
        here = [run for run in runs if run.member.setting.task == task]
        for mark in study.marks or (None,):
            values = _scores(here, mark)
            scores = (*mean_and_error(values), *interquartile_estimate([values]))
            step = here[0].member.steps if mark is None else mark
            cells = (task, step, *scores, len(values), _lost(here, mark))
            rows.append(dict(zip(_OURS, cells, strict=True)))
    return rows


def _scores(runs: Sequence[RunData], mark: int | None) -> list[float]:
    return [v for run in runs if (v := run.value_at("return", mark)) is not None]


def _lost(runs: Sequence[RunData], mark: int | None) -> int:
    """How many diverged before the mark."""
    lost = [run for run in runs if run.status == "diverged"]
    return len(lost) - len(_scores(lost, mark))


def _averages(
    study: Study, runs: Sequence[RunData], printed: Sequence[PaperNumber]
) -> list[dict[str, Any]]:
    """Over all tasks that were run, if the paper has them too, and as a share of its RESeL.

    Returns of different tasks have different sizes, so that only the shares have an interquartile
    mean; its interval draws runs again within each task.
    """
    tasks = list(dict.fromkeys(run.member.setting.task for run in runs))
    by_task = [[run for run in runs if run.member.setting.task == task] for task in tasks]
    rows = []
    for mark in study.marks or (None,):
        scores = [_scores(here, mark) for here in by_task]
        if len(tasks) < 2 or not all(scores):
            continue
        step = by_task[0][0].member.steps if mark is None else mark
        papers = [_with_paper({"task": task, "step": step}, printed) for task in tasks]
        common = [name for name in papers[0] if name.startswith("paper ") and "error" not in name]
        common = [name for name in common if all(name in paper for paper in papers)]
        if _RESEL not in common:
            continue
        row = {"task": f"Average of {len(tasks)}", "step": step, "diverged": _lost(runs, mark)}
        row |= dict(zip(("mean", "standard_error"), _mean_of_means(scores), strict=True))
        row |= {"runs": sum(map(len, scores))}
        rows.append(row | {name: fmean(paper[name] for paper in papers) for name in common})
        shares = [
            [score / paper[_RESEL] for score in own]
            for own, paper in zip(scores, papers, strict=True)
        ]
        value, low, high = interquartile_estimate(shares)
        share = row | {"task": "Share of the paper's RESeL"}
        share |= {"iqm": value, "iqm_low": low, "iqm_high": high}
        share |= dict(zip(("mean", "standard_error"), _mean_of_means(shares), strict=True))
        rows.append(share | {name: fmean(p[name] / p[_RESEL] for p in papers) for name in common})
    return rows


def _mean_of_means(strata: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Every task counts as much as every other, however many runs it has."""
    means, errors = zip(*map(mean_and_error, strata), strict=True)
    return fmean(means), math.hypot(*errors) / len(errors)


def _with_paper(row: dict[str, Any], printed: Sequence[PaperNumber]) -> dict[str, Any]:
    found = [p for p in printed if same_task(row["task"], p.task) and row["step"] == p.step]
    return row | _cells(found)


def _only_in_paper(
    rows: Sequence[dict[str, Any]], printed: Sequence[PaperNumber]
) -> list[dict[str, Any]]:
    places = dict.fromkeys((p.task, p.step) for p in printed)
    return [
        {"task": task, "step": step, **_cells([p for p in printed if (p.task, p.step) == place])}
        for place in places
        for task, step in [place]
        if not any(same_task(row["task"], task) and row["step"] == step for row in rows)
    ]


def _cells(found: Sequence[PaperNumber]) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for p in found:
        cells[f"paper {p.method}"] = p.mean
        cells[f"paper {p.method} error"] = p.error
    return cells


def _markdown(
    experiment: Experiment, rows: Sequence[dict[str, Any]], methods: Sequence[str]
) -> str:
    head = ["task", "steps", "ours", "interquartile mean", "runs", "diverged"]
    head += [f"{method} (paper)" for method in methods]
    cells = []
    for row in rows:
        ours = ["-"] * 4
        if "mean" in row:
            spread = "-"
            if "iqm" in row:
                iqm, low, high = (short(row[name]) for name in ("iqm", "iqm_low", "iqm_high"))
                spread = f"{iqm} [{low}, {high}]"
            ours = [score(row["mean"], row["standard_error"]), spread]
            ours += [str(row["runs"]), str(row["diverged"])]
        papers = [
            score(row.get(f"paper {method}"), row.get(f"paper {method} error"))
            for method in methods
        ]
        cells.append([row["task"], f"{row['step']:,}", *ours, *papers])
    return page(experiment.title, head, cells, "Mean ± standard error over runs that got there.")
