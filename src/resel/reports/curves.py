"""Learning curves of runs, as a picture and as a table."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resel.errors import RunDirectoryError
from resel.experiments.statistics import band
from resel.reports.seeds import WITHOUT_EFFECT
from resel.runs import RunDirectory, read_metrics

EVALUATED = "return (deterministic policy)"
"""Title of the axis wherever evaluations are drawn."""


@dataclass(frozen=True)
class Curve:
    """The evaluations of one run."""

    name: str
    """Of the run's folder."""
    label: str
    task: str
    encoder: str
    seed: int
    steps: list[int]
    means: list[float]
    deviations: list[float]
    success: list[float | None]
    settings: str
    """All that runs have in common which differ only in their seed."""


def read_curve(path: str | Path) -> Curve:
    """The evaluations recorded in a run directory."""
    run = RunDirectory.open(path, read_only=True)
    config: dict[str, Any] = run.read_config()
    lines = [line for line in read_metrics(run.metrics_path) if line.get("kind") == "eval"]
    if not lines:
        raise RunDirectoryError(f"The run in {run.path} has no evaluations yet.")
    encoder, seed = config["network"]["encoder"], config["training"]["seed"]
    return Curve(
        run.path.name,
        f"{encoder}, seed {seed}",
        config["task"],
        encoder,
        seed,
        [int(line["step"]) for line in lines],
        [float(line["return_mean"]) for line in lines],
        [float(line["return_std"]) for line in lines],
        [line.get("success_rate") for line in lines],
        _settings(config),
    )


def _settings(config: dict[str, Any]) -> str:
    groups = [config[name] for name in ("network", "algorithm", "training")]
    steering = [{k: v for k, v in g.items() if k not in WITHOUT_EFFECT} for g in groups]
    return json.dumps([config["task"], *steering], sort_keys=True)


def write_csv(curves: Sequence[Curve], path: Path) -> None:
    """One line per evaluation."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["task", "encoder", "seed", "step", "return_mean", "return_std", "success_rate"]
        )
        for curve in curves:
            for step, mean, deviation, success in zip(
                curve.steps, curve.means, curve.deviations, curve.success, strict=True
            ):
                share = "" if success is None else success
                writer.writerow(
                    [curve.task, curve.encoder, curve.seed, step, mean, deviation, share]
                )


def draw(curves: Sequence[Curve], path: Path) -> None:
    """Mean return against steps, a line for each run or for all seeds of the same settings."""
    from matplotlib.figure import Figure  # slow to import, and only pictures need it

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    groups = by_settings(curves)
    labels = [_label(group) for group in groups]
    for index, (group, label) in enumerate(zip(groups, labels, strict=True)):
        if labels.count(label) > 1:
            label = f"{label} ({group[0].name})"
        (_draw_run if len(group) == 1 else _draw_seeds)(axes, group, label, f"C{index}")
    axes.set_xlabel("environment steps")
    axes.set_ylabel(EVALUATED)
    axes.set_title(", ".join(dict.fromkeys(curve.task for curve in curves)))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def by_settings(curves: Sequence[Curve]) -> list[list[Curve]]:
    """The seeds of the same settings together; runs whose seed is there twice stay alone."""
    groups: dict[str, list[Curve]] = {}
    for curve in curves:
        groups.setdefault(curve.settings, []).append(curve)
    found: list[list[Curve]] = []
    for group in groups.values():
        all_differ = len({curve.seed for curve in group}) == len(group)
        found += [group] if all_differ else [[curve] for curve in group]
    return found


def _label(group: list[Curve]) -> str:
    return group[0].label if len(group) == 1 else f"{group[0].encoder}, {len(group)} seeds"


def _draw_run(axes: Any, group: list[Curve], label: str, colour: str) -> None:
    """One run, shaded by the deviation over its episodes."""
    (curve,) = group
    axes.plot(curve.steps, curve.means, label=label, linewidth=1.8, color=colour)
    low = [m - d for m, d in zip(curve.means, curve.deviations, strict=True)]
    high = [m + d for m, d in zip(curve.means, curve.deviations, strict=True)]
    axes.fill_between(curve.steps, low, high, alpha=0.15, color=colour)


def _draw_seeds(axes: Any, group: list[Curve], label: str, colour: str) -> None:
    """The mean over seeds, shaded by its standard error, and each seed as a thin line."""
    for curve in group:
        axes.plot(curve.steps, curve.means, linewidth=0.7, alpha=0.6, color=colour)
    over = band([(curve.steps, curve.means) for curve in group])
    axes.plot(over.steps, over.mean, label=label, linewidth=2.2, color=colour)
    low, high = over.mean - over.error, over.mean + over.error
    axes.fill_between(over.steps, low, high, alpha=0.2, linewidth=0, color=colour)
