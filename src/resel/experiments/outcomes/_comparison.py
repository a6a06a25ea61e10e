"""Methods on one task: how good, how soon and at what price."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from resel.analysis.runs import points
from resel.analysis.statistics import interquartile_estimate, mean_and_error
from resel.experiments._settings import Experiment, Study
from resel.experiments.outcomes._curves import by_cell, make_curves, write_rows
from resel.experiments.outcomes._fairness import (
    FAIRNESS,
    PRIVILEGE_COLUMNS,
    PRIVILEGES,
    privileges,
    privileges_of,
)
from resel.experiments.outcomes._markdown import count, page, score, short
from resel.experiments.outcomes._reading import RunData, diverged, grouped

Row = dict[str, Any]
_COLUMNS = (
    *("panel", "method", "mean", "standard_error", "threshold", "reached"),
    *("steps_to_threshold", "cpu_minutes_to_threshold", "steps", "cpu_minutes"),
    *("runs", "diverged", "iqm", "iqm_low", "iqm_high", *PRIVILEGE_COLUMNS),
)
_SHARE = 0.9
"""Of the way from an untrained policy to the best method, where a task has no threshold."""
_FEWEST_FOR_INTERVAL = 3
"""Runs; of one or two, drawing them again says nothing."""


def make_comparison(
    experiment: Experiment, study: Study, runs: Sequence[RunData], folder: Path
) -> list[str]:
    """Curves, then table.csv and table.md: final returns, and what it took to a threshold."""
    files = make_curves(experiment, runs, folder)
    rows, notes, thresholds = [], [], study.numbers["thresholds"]
    panels = grouped(runs, lambda run: run.member.setting.place)
    for panel, here in panels.items():
        given = thresholds.get(panel)
        # The same steps in another panel are judged by what the task's first panel shows.
        judged_by = study.numbers.get("judged_by", {}).get(panel, panel)
        found = _share_of_the_way(panels.get(judged_by, [])) if given is None else math.nan
        threshold = found if given is None else given
        if judged_by == panel and not math.isnan(found):
            notes.append(
                f"The threshold of {panel} is {_SHARE:.0%} of the way from an untrained policy, "
                "the evaluation at step 0, to the best of these methods."
            )
        elif judged_by == panel and math.isnan(threshold):
            notes.append(
                f"{panel} has no threshold: no method is ahead of an untrained policy by more than "
                "two standard errors of its evaluation at step 0."
            )
        rows += _rows(panel, here, threshold)
    write_rows(folder / "table.csv", rows, _COLUMNS)
    (folder / "table.md").write_text(_text(experiment, rows, notes), encoding="utf-8")
    return [*files, "table.csv", "table.md"]


def _finals(runs: Sequence[RunData]) -> list[float]:
    return [value for run in runs if (value := run.value_at("return")) is not None]


def _share_of_the_way(runs: Sequence[RunData]) -> float:
    """A return that tells methods apart on a task of which nobody has said what solves it."""
    first = [values[0] for run in runs for values in [run.points("return")[1]] if values]
    means = [
        mean_and_error(finals)[0] for own in by_cell(runs).values() if (finals := _finals(own))
    ]
    if not first or not means:
        return math.nan
    start, best = float(np.mean(first)), max(means)
    return start + _SHARE * (best - start) if best - start > 2 * _error(runs) else math.nan


def _error(runs: Sequence[RunData]) -> float:
    """The standard error of a run's evaluation at step 0, over its episodes."""
    first = [values[0] for r in runs if (values := points(r.lines, "eval", "return_std")[1])]
    if not first:
        return 0.0
    # All are measured alike.
    episodes = runs[0].member.setting.config(runs[0].member.seed).training.eval_episodes
    return median(first) / math.sqrt(episodes)


def _rows(panel: str, runs: Sequence[RunData], threshold: float) -> list[Row]:
    """A row for each method, the best first."""
    rows: list[Row] = []
    for (_panel, group), own in by_cell(runs).items():
        finals = _finals(own)
        # A run that ends below a threshold it once reached has reached it all the same.
        reached = [found for run in own if (found := _reached(run, threshold)) is not None]
        taken = [run.number("steps") for run in own], [run.number("cpu_seconds") for run in own]
        steps, seconds = ([value for value in values if value is not None] for values in taken)
        middle, *interval = interquartile_estimate([finals])
        cells = (
            *(panel, group, *mean_and_error(finals), threshold, len(reached)),
            *_medians(reached, len(own)),
            *(median(steps) if steps else None, median(seconds) / 60 if seconds else None),
            *(len(finals), diverged(own), middle),
            *(interval if len(finals) >= _FEWEST_FOR_INTERVAL else (math.nan, math.nan)),
            *privileges_of(own).values(),
        )
        rows.append(dict(zip(_COLUMNS, cells, strict=True)))
    return sorted(rows, key=_rank)


def _rank(row: Row) -> float:
    """The best first, those without a score last."""
    mean: float = row["mean"]
    return math.inf if math.isnan(mean) else -mean


def _reached(run: RunData, threshold: float) -> tuple[float, float] | None:
    """Steps and processor minutes at the first evaluation that reached the threshold."""
    for step, value in zip(*run.points("return"), strict=True):
        if step > 0 and value >= threshold:
            marks, seconds = points(run.lines, "timing", "cpu_seconds")
            minutes = float(np.interp(step, [0, *marks], [0, *seconds])) / 60 if marks else math.nan
            return float(step), minutes
    return None


def _medians(
    reached: Sequence[tuple[float, float]], runs: int
) -> tuple[float | None, float | None]:
    """Over all runs; where half of them did not reach it there is none."""
    if 2 * len(reached) <= runs:
        return None, None
    missing = [(math.inf, math.inf)] * (runs - len(reached))
    steps, minutes = zip(*reached, *missing, strict=True)
    return median(steps), median(minutes)


def _text(experiment: Experiment, rows: Sequence[Row], notes: Sequence[str]) -> str:
    lines = []
    for row in rows:
        middle, low, high = (short(row[name]) for name in ("iqm", "iqm_low", "iqm_high"))
        interval = middle if math.isnan(row["iqm_low"]) else f"{middle} [{low}, {high}]"
        steps, minutes = row["steps_to_threshold"], row["cpu_minutes_to_threshold"]
        lines.append(
            [
                *(row["panel"], row["method"], score(row["mean"], row["standard_error"])),
                *(interval, str(row["runs"]), str(row["diverged"])),
                *(short(row["threshold"]), f"{row['reached']}"),
                *("-" if steps is None else count(steps), score(minutes)),
                *(score(row["steps"]) if row["steps"] is None else count(row["steps"]),),
                *(score(row["cpu_minutes"]), *privileges(row)),
            ]
        )
    head = (
        *("task", "method", "final return", "interquartile mean [95 %]", "runs", "diverged"),
        *("threshold", "reached", "steps to it", "processor minutes to it"),
        *("steps in all", "processor minutes in all", *PRIVILEGES),
    )
    about = (
        "Final returns are means of the last five evaluations, or of as many as there were after "
        "the first update, ± standard error over the runs that did not diverge. Steps and "
        "processor minutes are medians over the runs; none is given where half of them did not "
        "reach the threshold."
    )
    return page(experiment.title, head, lines, about, FAIRNESS, *notes)
