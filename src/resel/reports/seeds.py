"""Runs that differ only in their seed, taken together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from resel.reports.reading import Points, RunRecord

_LONGEST_LABEL = 48
# What changes neither the course of a run nor how its figures are measured.
_WITHOUT_EFFECT = {"seed", "device", "threads", "log_every", "checkpoint_every"}
_WITHOUT_EFFECT |= {"env_workers", "env_timeout", "env_restarts"}


@dataclass(frozen=True)
class Group:
    """Runs of one task and one method."""

    task: str
    label: str
    runs: list[RunRecord]

    @property
    def figures(self) -> list[float]:
        """The final figures of those runs that have one."""
        return [run.final_return for run in self.runs if run.final_return is not None]

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


Summary = Callable[[Sequence[float]], tuple[float, float, float]]
"""The middle, the lower and the upper edge of some values, at least one."""


def group_runs(runs: Sequence[RunRecord]) -> dict[str, list[Group]]:
    """By task, then by the label of experiment.json or else by equal settings."""
    by_task: dict[str, dict[Any, list[RunRecord]]] = {}
    for run in runs:
        by_task.setdefault(run.config.task, {}).setdefault(run.label or _key(run), []).append(run)
    return {task: _groups(task, list(by_task[task].values())) for task in sorted(by_task)}


def over_runs(curves: Sequence[Points], summary: Summary) -> Band:
    """The summary at every step at which any run has a value.

    Between two values of a run the straight line counts, before its first and after its last
    nothing does. Values that are not finite are left out.
    """
    finite = [points for points in map(_finite, curves) if points[0]]
    grid = sorted({step for steps, _ in finite for step in steps})
    rows = [np.interp(grid, steps, v, left=np.nan, right=np.nan) for steps, v in finite]
    columns = [[float(v) for v in column if not np.isnan(v)] for column in zip(*rows, strict=True)]
    found = [summary(column) for column in columns]
    return Band(
        [float(step) for step in grid],
        [middle for middle, _, _ in found],
        [low for _, low, _ in found],
        [high for _, _, high in found],
        [len(column) for column in columns],
    )


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard error of the mean; NaN for what the number of values does not allow."""
    if not values:
        return math.nan, math.nan
    error = math.nan if len(values) < 2 else float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return float(np.mean(values)), error


def mean_band(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean, one standard error to either side."""
    mean, error = mean_and_error(values)
    return mean, mean - error, mean + error


def interquartile_band(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean of the middle half, between the quartiles; a quarter is cut from each end."""
    cut = len(values) // 4
    middle = float(np.mean(sorted(values)[cut : len(values) - cut]))
    low, high = np.quantile(values, [0.25, 0.75]) if len(values) > 1 else (math.nan, math.nan)
    return middle, float(low), float(high)


def _finite(curve: Points) -> Points:
    kept = {s: v for s, v in zip(*curve, strict=True) if math.isfinite(v)}
    return list(kept), list(kept.values())


def _groups(task: str, groups: list[list[RunRecord]]) -> list[Group]:
    return [Group(task, _label(members, groups), members) for members in groups]


def _settings(run: RunRecord) -> dict[str, Any]:
    return {k: v for k, v in run.config.flat().items() if k not in _WITHOUT_EFFECT}


def _key(run: RunRecord) -> tuple[tuple[str, Any], ...]:
    return tuple(_settings(run).items())


def _label(members: list[RunRecord], groups: list[list[RunRecord]]) -> str:
    """What tells this group from the others of its task, in few words."""
    if members[0].label:
        return members[0].label
    others = [_settings(group[0]) for group in groups]
    settings = _settings(members[0])
    telling = [n for n in settings if n != "encoder" and any(o[n] != settings[n] for o in others)]
    label = ", ".join([settings["encoder"], *(f"{name}={settings[name]}" for name in telling)])
    return label if len(label) <= _LONGEST_LABEL else f"{settings['encoder']}, {members[0].name}"
