"""Learning rates of the context encoder that were chosen, against those that were found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Any

from resel.analysis.plots import STEPS, legend, looks, panels, save_both
from resel.analysis.runs import Points, points
from resel.analysis.statistics import mean_and_error
from resel.experiments._settings import Experiment
from resel.experiments.outcomes._curves import make_curves, write_rows
from resel.experiments.outcomes._markdown import page, score
from resel.experiments.outcomes._reading import RunData, diverged, grouped

Row = dict[str, Any]
_FOUND = ("lr", "lr_low", "lr_high")
_COLUMNS = (
    *("panel", "group", "runs", "diverged", "random", "mean", "standard_error"),
    *("share", "share_standard_error"),
    *("half_mean", "half_standard_error", "half_share", "half_share_standard_error", *_FOUND),
)


def make_rates(experiment: Experiment, runs: Sequence[RunData], folder: Path) -> list[str]:
    """Curves of returns and of LR_CE, then table.csv and table.md: how far every arm came."""
    files = [*make_curves(experiment, runs, folder), *_draw_rates(runs, folder)]
    by_panel = grouped(runs, lambda run: run.member.setting.place)
    rows = [row for panel, here in by_panel.items() for row in _panel(panel, here)]
    write_rows(folder / "table.csv", rows, _COLUMNS)
    (folder / "table.md").write_text(_text(experiment, rows), encoding="utf-8")
    return [*files, "table.csv", "table.md"]


def _panel(panel: str, runs: Sequence[RunData]) -> list[Row]:
    """The arms of one task; a share of 1 is the best of those whose rate was fixed."""
    arms = grouped(runs, lambda run: run.member.setting.group)
    random = _random(runs)
    rows = []
    for group, own in arms.items():
        row = {"panel": panel, "group": group, "runs": len(_finals(own))}
        row |= {"diverged": diverged(own), "random": random}
        rows.append(row | (_found(own) if _steered(own) else {}))
    for prefix, values in (("", _finals), ("half_", _second_halves)):
        scores = {group: mean_and_error(values(own)) for group, own in arms.items()}
        fixed = [scores[group][0] for group, own in arms.items() if not _steered(own)]
        best = max((mean for mean in fixed if not math.isnan(mean)), default=math.nan)
        way = best - random
        for row, (mean, error) in zip(rows, scores.values(), strict=True):
            row |= {f"{prefix}mean": mean, f"{prefix}standard_error": error}
            if way > 0:
                row[f"{prefix}share"] = (mean - random) / way
                row[f"{prefix}share_standard_error"] = error / way
    return rows


def _finals(runs: Sequence[RunData]) -> list[float]:
    return [value for run in runs if (value := run.value_at("return")) is not None]


def _second_halves(runs: Sequence[RunData]) -> list[float]:
    """The mean of all evaluations in the second half of each training: it shows how often one falls
    back, where the last five are a matter of luck."""
    found = []
    for run in runs:
        if run.value_at("return") is not None:
            evaluated = list(zip(*run.points("return"), strict=True))
            last = evaluated[-1][0]
            found.append(fmean(value for step, value in evaluated if step > last / 2))
    return found


def _steered(runs: Sequence[RunData]) -> bool:
    return runs[0].member.setting.overrides.get("lr_context_encoder") == "auto"


def _random(runs: Sequence[RunData]) -> float:
    """The mean return at step 0, where no policy has learned anything."""
    first = [
        value
        for run in runs
        for step, value in zip(*run.points("return"), strict=True)
        if step == 0
    ]
    return fmean(first) if first else math.nan


def _rates(run: RunData) -> Points:
    return points(run.lines, "train", "lr_context_encoder")


def _draw_rates(runs: Sequence[RunData], folder: Path) -> list[str]:
    """rates.csv and a picture: LR_CE along the steps of every run that steers it."""
    by_panel = grouped([r for r in runs if _steered([r])], lambda run: run.member.setting.place)
    rows: list[Row] = []
    if not by_panel:
        return []
    figure, axes = panels(len(by_panel))
    look = looks(run.member.setting.group for here in by_panel.values() for run in here)
    for ax, (panel, here) in zip(axes, by_panel.items(), strict=True):
        shown: set[str] = set()
        for run in here:
            group, (steps, values) = run.member.setting.group, _rates(run)
            label = None if group in shown else group
            ax.plot(steps, values, linewidth=1, label=label, **look[group])
            shown.add(group)
            known = {"panel": panel, "group": group, "seed": run.member.seed}
            rows += [known | {"step": s, "lr": v} for s, v in zip(steps, values, strict=True)]
        ax.set(xlabel=STEPS, yscale="log")
        ax.set_title(panel, fontsize=10)
    axes[0].set_ylabel("LR_CE")
    legend(figure, axes)
    write_rows(folder / "rates.csv", rows, ("panel", "group", "seed", "step", "lr"))
    return ["rates.csv", *save_both(figure, folder, "rates")]


def _found(runs: Sequence[RunData]) -> Row:
    """Where LR_CE ended: the geometric mean over seeds, the smallest and the largest."""
    last = [values[-1] for run in runs if (values := _rates(run)[1])]
    if not last:
        return {}
    return {"lr": geometric_mean(last), "lr_low": min(last), "lr_high": max(last)}


def _text(experiment: Experiment, rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        lines.append(
            [
                *(row["panel"], row["group"]),
                *(_share(row, ""), score(row["mean"], row["standard_error"])),
                *(_share(row, "half_"), score(row["half_mean"], row["half_standard_error"])),
                *(score(row["random"]), str(row["runs"]), str(row["diverged"])),
                _rate(row),
            ]
        )
    head = (
        *("task", "LR_CE", "share of the way", "return"),
        *("of the second half", "return of the second half", "random", "runs", "diverged"),
        "final LR_CE",
    )
    notes = (
        "The way is that from an untrained policy, the evaluation at step 0, to the best of the "
        "fixed rates. Returns are means of the last five evaluations, ± standard error over the "
        "runs that did not diverge.",
        "Of the second half: the same with the means of all evaluations after half of the steps.",
        "Final rates: geometric mean over seeds, smallest to largest in brackets.",
    )
    return page(experiment.title, head, lines, *notes)


def _share(row: Row, prefix: str) -> str:
    if math.isnan(row.get(f"{prefix}share", math.nan)):
        return "-"
    text = f"{row[f'{prefix}share']:.0%}"
    error = row[f"{prefix}share_standard_error"]
    return text if math.isnan(error) else f"{text} ± {error:.0%}"


def _rate(row: Row) -> str:
    if "lr" not in row:
        return "-"
    return f"{row['lr']:.2g} [{row['lr_low']:.2g}, {row['lr_high']:.2g}]"
