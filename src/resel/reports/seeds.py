"""Runs that differ only in their seed, taken together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from resel.experiments.statistics import (
    Floats,
    interquartile_mean,
    mean_and_error,
    read_off,
)
from resel.reports.reading import Collection, Points, RunRecord

_LONGEST_LABEL = 48
# What changes neither the course of a run nor how its figures are measured.
WITHOUT_EFFECT = {"seed", "device", "threads", "log_every", "checkpoint_every"}
WITHOUT_EFFECT |= {"env_workers", "env_timeout", "env_restarts"}


@dataclass(frozen=True)
class Group:
    """Runs of one task and one method."""

    task: str
    label: str
    runs: list[RunRecord]

    @property
    def figures(self) -> list[float]:
        """The final figures of those runs that have one; a diverged run may have none."""
        found = [run.final_return for run in self.runs if run.final_return is not None]
        return [figure for figure in found if math.isfinite(figure)]

    @property
    def same_settings(self) -> bool:
        """Whether all runs were given the same settings; experiment.json may say otherwise."""
        return len({_key(run) for run in self.runs}) == 1


@dataclass(frozen=True)
class Band:
    """A curve over runs; its edges are NaN where there is one run."""

    steps: list[float]
    middle: list[float]
    low: list[float]
    high: list[float]
    counts: list[int]


Summary = Callable[[Floats], tuple[float, float, float]]
"""The middle, the lower and the upper edge of some values, at least one."""


@dataclass(frozen=True)
class Study:
    """The methods that were compared on one task."""

    title: str
    """Of the experiment; empty for runs that belong to none."""
    task: str
    groups: list[Group]


def studies(found: Collection) -> list[Study]:
    """Experiment by experiment with its own labels, then the other runs by equal settings."""
    runs = {run.path: run for run in found.runs}
    compared, taken = [], set()
    for experiment in found.experiments:
        members = [member for member in experiment.members if member.path in runs]
        taken |= {member.path for member in members}
        compared += _by_task(experiment.title, [(m.label, runs[m.path]) for m in members])
    return compared + _by_task("", [("", run) for run in found.runs if run.path not in taken])


def _by_task(title: str, pairs: Sequence[tuple[str, RunRecord]]) -> list[Study]:
    by_task: dict[str, dict[Any, list[RunRecord]]] = {}
    for label, run in pairs:
        # A label groups runs whatever their settings; without one, equal settings do.
        key = (label, None if label else _key(run))
        by_task.setdefault(run.config.task, {}).setdefault(key, []).append(run)
    return [
        Study(title, task, _named(task, {k: _unique(v) for k, v in by_task[task].items()}))
        for task in sorted(by_task)
    ]


def _named(task: str, groups: dict[Any, list[RunRecord]]) -> list[Group]:
    members = list(groups.values())
    return [
        Group(task, label or _label(runs, members), runs) for (label, _), runs in groups.items()
    ]


def _unique(runs: list[RunRecord]) -> list[RunRecord]:
    return list({run.path: run for run in runs}.values())


def over_runs(curves: Sequence[Points], summary: Summary) -> Band:
    """The summary at every step at which any run has a value; see `read_off`.

    Values that are not finite are left out.
    """
    steps, columns = read_off([_finite(curve) for curve in curves])
    found = [summary(column) for column in columns]
    return Band(
        [float(step) for step in steps],
        [middle for middle, _, _ in found],
        [low for _, low, _ in found],
        [high for _, _, high in found],
        [len(column) for column in columns],
    )


def mean_band(values: Floats) -> tuple[float, float, float]:
    """The mean, one standard error to either side."""
    mean, error = mean_and_error(values)
    return mean, mean - error, mean + error


def interquartile_band(values: Floats) -> tuple[float, float, float]:
    """The interquartile mean, between the quartiles."""
    low, high = np.quantile(values, [0.25, 0.75]) if len(values) > 1 else (math.nan, math.nan)
    return interquartile_mean(values), float(low), float(high)


def _finite(curve: Points) -> Points:
    kept = {s: v for s, v in zip(*curve, strict=True) if math.isfinite(v)}
    return list(kept), list(kept.values())


def _settings(run: RunRecord) -> dict[str, Any]:
    return {k: v for k, v in run.config.flat().items() if k not in WITHOUT_EFFECT}


def _key(run: RunRecord) -> tuple[tuple[str, Any], ...]:
    return tuple(_settings(run).items())


def _label(members: list[RunRecord], groups: list[list[RunRecord]]) -> str:
    """What tells this group from the others of its task, in few words."""
    others = [_settings(group[0]) for group in groups]
    settings = _settings(members[0])
    telling = [n for n in settings if n != "encoder" and any(o[n] != settings[n] for o in others)]
    label = ", ".join([settings["encoder"], *(f"{name}={settings[name]}" for name in telling)])
    return label if len(label) <= _LONGEST_LABEL else f"{settings['encoder']}, {members[0].name}"
