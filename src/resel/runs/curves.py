"""Learning curves of runs, as a picture and as a table."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resel.errors import RunDirectoryError
from resel.runs.directory import RunDirectory
from resel.runs.loggers import read_metrics


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
    )


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
    """Mean return against steps, one line per run, shaded by the deviation over episodes."""
    from matplotlib.figure import Figure  # slow to import, and only pictures need it

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    labels = [curve.label for curve in curves]
    for curve in curves:
        told_apart = labels.count(curve.label) == 1
        label = curve.label if told_apart else f"{curve.label} ({curve.name})"
        (line,) = axes.plot(curve.steps, curve.means, label=label, linewidth=1.8)
        low = [m - d for m, d in zip(curve.means, curve.deviations, strict=True)]
        high = [m + d for m, d in zip(curve.means, curve.deviations, strict=True)]
        axes.fill_between(curve.steps, low, high, alpha=0.15, color=line.get_color())
    axes.set_xlabel("environment steps")
    axes.set_ylabel("return (deterministic policy)")
    axes.set_title(", ".join(dict.fromkeys(curve.task for curve in curves)))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
