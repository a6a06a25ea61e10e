"""Learning curves of runs, as a picture and as a table: `resel plot`."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from resel.analysis import plots
from resel.analysis.runs import RunRecord, read_run
from resel.analysis.statistics import band, seed_groups
from resel.errors import RunDirectoryError
from resel.methods import run_label
from resel.reports.studies import telling_label

_COLUMNS = ("return_mean", "return_std", "success_rate")


def read_evaluated(path: str | Path) -> RunRecord:
    """A run that has something to draw."""
    run = read_run(path)
    if not run.lines("eval"):
        raise RunDirectoryError(f"The run in {run.path} has no evaluations yet.")
    return run


def write_csv(runs: Sequence[RunRecord], path: Path) -> None:
    """One line per evaluation."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["task", "method", "encoder", "seed", "step", *_COLUMNS, "line"])
        for label, group in _labelled(runs):
            for run in group:
                config = run.config
                own = (config.task, config.method, config.encoder, run.seed)
                for line in run.lines("eval"):
                    numbers = (line.get(name) for name in _COLUMNS)
                    writer.writerow([*own, line["step"], *numbers, label])


def draw(runs: Sequence[RunRecord], path: Path) -> None:
    """Mean return against steps, a line for each run or for all seeds of the same settings."""
    figure, (axes,) = plots.panels(1, width=7, height=4.2)
    for index, (label, group) in enumerate(_labelled(runs)):
        (_draw_run if len(group) == 1 else _draw_seeds)(axes, group, label, f"C{index}")
    axes.set_xlabel(plots.STEPS)
    axes.set_ylabel(plots.EVALUATED)
    axes.set_title(", ".join(dict.fromkeys(_title(run.config.task) for run in runs)))
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    plots.save(figure, path)


def _title(task: str) -> str:
    """A task as it is called; of an environment in a file, the file without its folders."""
    return Path(task).name if ".py:" in task else task


def _labelled(runs: Sequence[RunRecord]) -> list[tuple[str, list[RunRecord]]]:
    """The lines: seeds of the same settings together, with what tells them from the others."""
    groups = seed_groups(runs)
    names = [run_label(group[0].config) for group in groups]
    found = []
    for group, name in zip(groups, names, strict=True):
        rivals = [g for g, other in zip(groups, names, strict=True) if other == name]
        found.append(f"{telling_label(group, rivals)}, {_seeds(group)}")
    return [
        (label if found.count(label) == 1 else f"{label} ({group[0].name})", group)
        for label, group in zip(found, groups, strict=True)
    ]


def _seeds(group: list[RunRecord]) -> str:
    return f"seed {group[0].seed}" if len(group) == 1 else f"{len(group)} seeds"


def _draw_run(axes: Any, group: list[RunRecord], label: str, colour: str) -> None:
    """One run, shaded by the standard deviation over its episodes."""
    steps, means = group[0].points("eval", "return_mean")
    edges = plots.around(means, group[0].points("eval", "return_std")[1])
    plots.curve(axes, steps, means, edges, label=label, linewidth=1.8, color=colour)


def _draw_seeds(axes: Any, group: list[RunRecord], label: str, colour: str) -> None:
    """The mean over seeds, shaded by its standard error, and each seed as a thin line."""
    curves = [run.points("eval", "return_mean") for run in group]
    for curve in curves:
        axes.plot(*curve, linewidth=0.7, alpha=0.6, color=colour)
    over, style = band(curves), {"label": label, "linewidth": 2.2, "color": colour}
    plots.curve(axes, over.steps, over.middle, (over.low, over.high), **style)
