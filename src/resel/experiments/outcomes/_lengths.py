"""Agents that learned at one length, measured at others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from resel.experiments._settings import Experiment, Study
from resel.experiments.outcomes._agents import FILE, Evaluations
from resel.experiments.outcomes._curves import make_curves, write_rows
from resel.experiments.outcomes._markdown import page
from resel.experiments.outcomes._reading import RunData, completed

_COLUMNS = (
    *("group", "seed", "status", "end_of_training"),
    *("length", "episodes", "success_rate", "return_mean"),
)


def make_lengths(
    experiment: Experiment, study: Study, runs: Sequence[RunData], folder: Path
) -> list[str]:
    """Curves, then table.csv and table.md: success of every seed at every length."""
    files, known = make_curves(experiment, runs, folder), Evaluations(folder)
    rows = [row for run in runs for row in _rows(run, study, known)]
    write_rows(folder / "table.csv", rows, _COLUMNS)
    (folder / "table.md").write_text(_text(experiment, study, rows), encoding="utf-8")
    return [*files, "table.csv", "table.md", *([FILE] if completed(runs) else [])]


def _rows(run: RunData, study: Study, known: Evaluations) -> list[dict[str, Any]]:
    """A row for each length; one without if the run did not come to its end."""
    recorded = run.points("success")[1]
    about = {
        "group": run.member.setting.group,
        "seed": run.member.seed,
        "status": run.status,
        "end_of_training": recorded[-1] if recorded else None,
    }
    if run.status != "completed":
        return [about]
    episodes = study.numbers["episodes"]
    rows = []
    for length in study.numbers["lengths"]:
        found = known.of(run.member.run, "last", episodes, {"length": length})
        values = (length, episodes, found.success_rate, found.return_mean)
        rows.append(about | dict(zip(_COLUMNS[4:], values, strict=True)))
    return rows


def _text(experiment: Experiment, study: Study, rows: Sequence[dict[str, Any]]) -> str:
    lengths, lines = study.numbers["lengths"], []
    for group in dict.fromkeys(row["group"] for row in rows):
        own = [row for row in rows if row["group"] == group]
        seeds = list(dict.fromkeys(row["seed"] for row in own))
        for seed in seeds:
            here = [row for row in own if row["seed"] == seed]
            ends = [here[0]["end_of_training"]]
            lines.append([group, str(seed), *_cells(ends, here, lengths)])
        ends = [next(row for row in own if row["seed"] == s)["end_of_training"] for s in seeds]
        lines.append([group, f"mean of {len(seeds)}", *_cells(ends, own, lengths)])
    head = ("encoder", "seed", "end of training", *(f"length {length}" for length in lengths))
    note = (
        f"Success rates: of the last evaluation of the training, then of the last agent in "
        f"{study.numbers['episodes']} other episodes at each length. The training was at length "
        f"{lengths[0]}; half of all turns are right by chance. Runs without an agent are left out "
        "of means."
    )
    return page(experiment.title, head, lines, note)


def _cells(
    ends: Sequence[float | None], rows: Sequence[dict[str, Any]], lengths: Sequence[int]
) -> list[str]:
    columns = [[row["success_rate"] for row in rows if row.get("length") == n] for n in lengths]
    return [_mean(values) for values in ([*ends], *columns)]


def _mean(values: Sequence[float | None]) -> str:
    found = [value for value in values if value is not None]
    return f"{fmean(found):.0%}" if found else "-"
