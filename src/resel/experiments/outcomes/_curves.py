"""Learning curves with one standard error, and final scores along an axis."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from resel.analysis.plots import EVALUATED, STEPS, curve, legend, looks, panels, save_both
from resel.analysis.statistics import band, interquartile_estimate, mean_and_error, read_off
from resel.experiments._settings import Experiment, Measure
from resel.experiments.outcomes._reading import RunData, diverged, grouped

_NAMES: dict[Measure, str] = {
    "return": EVALUATED,
    "exploration": "return (exploring policy)",
    "success": "success rate",
}

Cell = tuple[str, str]
"""Panel and group."""


def make_curves(experiment: Experiment, runs: Sequence[RunData], folder: Path) -> list[str]:
    """curves.csv, the final scores, and a picture for each measure with divergences counted."""
    cells = by_cell(runs)
    files, rows = ["curves.csv", "finals.csv"], []
    for measure in experiment.measures:
        for cell, members in cells.items():
            lost = diverged(members)
            steps, columns = read_off([run.points(measure) for run in members])
            for step, values in zip(steps, columns, strict=True):
                found = (int(step), *mean_and_error(values), len(values), lost)
                rows.append(dict(zip(_CURVE_COLUMNS, (*cell, measure, *found), strict=True)))
        files += _draw_curves(experiment, measure, cells, folder)
    write_rows(folder / "curves.csv", rows, _CURVE_COLUMNS)
    write_rows(folder / "finals.csv", _finals(experiment.measures[0], runs), _FINAL_COLUMNS)
    return files


_CURVE_COLUMNS = ("panel", "group", "measure", "step", "mean", "standard_error", "runs", "diverged")
_FINAL_COLUMNS = (
    *("panel", "group", "x", "mean", "standard_error"),
    *("iqm", "iqm_low", "iqm_high", "runs", "diverged"),
)


def make_finals(experiment: Experiment, runs: Sequence[RunData], folder: Path) -> list[str]:
    """finals.csv and a picture of the final score against x, panel by panel."""
    measure = experiment.measures[0]
    rows = _finals(measure, runs)
    write_rows(folder / "finals.csv", rows, _FINAL_COLUMNS)
    return ["finals.csv", *_draw_finals(experiment, measure, rows, folder)]


def _finals(measure: Measure, runs: Sequence[RunData]) -> list[dict[str, Any]]:
    """The final score of every cell and x over its seeds."""
    rows: list[dict[str, Any]] = []
    for (panel, group), members in by_cell(runs).items():
        for x in sorted({_x(run) for run in members}):
            here = [run for run in members if _x(run) == x]
            values = [v for run in here if (v := run.value_at(measure)) is not None]
            scores = (*mean_and_error(values), *interquartile_estimate([values]))
            cells = (panel, group, x, *scores, len(values), diverged(here))
            rows.append(dict(zip(_FINAL_COLUMNS, cells, strict=True)))
    return rows


def write_rows(path: Path, rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
    """A table with a header; empty where a number is missing."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(columns))
        writer.writeheader()
        for row in rows:
            # NaN is the one number that is not itself.
            writer.writerow({k: "" if v is None or v != v else v for k, v in row.items()})


def _x(run: RunData) -> float:
    return run.member.setting.x or 0.0


def by_cell(runs: Sequence[RunData]) -> dict[Cell, list[RunData]]:
    """The runs of each line of each panel."""
    return grouped(runs, lambda run: (run.member.setting.place, run.member.setting.group))


def _draw_curves(
    experiment: Experiment, measure: Measure, cells: dict[Cell, list[RunData]], folder: Path
) -> list[str]:
    places = list(dict.fromkeys(panel for panel, _ in cells))
    figure, axes = panels(len(places))
    look = looks(group for _, group in cells)
    for ax, place in zip(axes, places, strict=True):
        lost = []
        for (panel, group), members in cells.items():
            if panel != place:
                continue
            _draw_group(ax, members, measure, label=group, linewidth=1.6, **look[group])
            if count := diverged(members):
                lost.append(f"{group}: {count} of {len(members)} diverged")
        ax.set_title("\n".join([place, *lost]), fontsize=10)
        ax.set_xlabel(STEPS)
    axes[0].set_ylabel(_NAMES[measure])
    legend(figure, axes)
    figure.suptitle(experiment.title)
    return save_both(figure, folder, "curves" if measure == "return" else f"curves-{measure}")


def _draw_group(ax: Any, runs: Sequence[RunData], measure: Measure, **style: Any) -> None:
    """The mean and its standard error; dotted over fewer runs than before, as some diverged."""
    over = band([run.points(measure) for run in runs])
    most = max(over.counts, default=0)
    last = max((i for i, count in enumerate(over.counts) if count == most), default=0)
    dotted = style | {"label": None, "linestyle": ":"}
    for part, look in ((slice(last + 1), style), (slice(last, None), dotted)):
        edges = (over.low[part], over.high[part])
        curve(ax, over.steps[part], over.middle[part], edges, **look)


def _mark_diverged(ax: Any, row: dict[str, Any], colour: str) -> None:
    """The mean leaves out runs that diverged, so a picture has to say how many there were."""
    if not row["diverged"]:
        return
    words = f"{row['diverged']} of {row['diverged'] + row['runs']} diverged"
    if row["runs"]:
        ax.annotate(words, (row["x"], row["mean"]), color=colour, fontsize=7)
        return
    foot = ax.get_xaxis_transform()
    ax.plot([row["x"]], [0.03], marker="x", color=colour, transform=foot, clip_on=False)
    ax.text(row["x"], 0.06, words, color=colour, fontsize=7, transform=foot)


def _draw_finals(
    experiment: Experiment, measure: Measure, rows: Sequence[dict[str, Any]], folder: Path
) -> list[str]:
    places = list(dict.fromkeys(row["panel"] for row in rows))
    figure, axes = panels(len(places))
    look = looks(row["group"] for row in rows)
    for ax, place in zip(axes, places, strict=True):
        for group in look:
            here = [row for row in rows if (row["panel"], row["group"]) == (place, group)]
            if here:
                x, mean, error = ([row[n] for row in here] for n in ("x", "mean", "standard_error"))
                ax.errorbar(x, mean, error, marker="o", label=group, capsize=3, **look[group])
                for row in here:
                    _mark_diverged(ax, row, look[group]["color"])
        ax.set_title(place, fontsize=10)
        if max(row["x"] for row in rows) < 1:
            ax.set(xscale="log", xlabel="learning rate")
        else:
            ax.set(xticks=sorted({row["x"] for row in rows}), xlabel="length")
    axes[0].set_ylabel(_NAMES[measure])
    legend(figure, axes)
    figure.suptitle(experiment.title)
    return save_both(figure, folder, "finals")
