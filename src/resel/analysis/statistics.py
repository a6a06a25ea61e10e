"""Scores over seeds: mean and standard error, interquartile mean, curves on a common grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from resel.analysis.runs import RunRecord, settings_key

Floats = NDArray[np.float64]
Curve = tuple[Sequence[float], Sequence[float]]
"""Steps and values."""

_TRIMMED = 0.25
_RESAMPLES = 2000
_LEVEL = 0.95


class Estimate(NamedTuple):
    """A score and the interval it lies in."""

    value: float
    low: float
    high: float


Summary = Callable[[Floats], Estimate]
"""Of some values, at least one; the edges are NaN where one value has none."""


@dataclass(frozen=True)
class Band:
    """A learning curve over runs: what a picture draws and shades."""

    steps: list[float]
    middle: list[float]
    low: list[float]
    high: list[float]
    counts: list[int]
    """How many runs have got that far."""


def seed_groups(runs: Sequence[RunRecord]) -> list[list[RunRecord]]:
    """The seeds of the same settings together; runs whose seed is there twice stay alone."""
    groups: dict[str, list[RunRecord]] = {}
    for run in runs:
        groups.setdefault(settings_key(run.config), []).append(run)
    found: list[list[RunRecord]] = []
    for group in groups.values():
        all_differ = len({run.seed for run in group}) == len(group)
        found += [group] if all_differ else [[run] for run in group]
    return found


def mean_and_error(values: Sequence[float] | Floats) -> tuple[float, float]:
    """Mean and standard error over seeds, as in the paper; the error of one value is NaN."""
    numbers = np.asarray(values, np.float64)
    if numbers.size == 0:
        return float("nan"), float("nan")
    if numbers.size == 1:
        return float(numbers[0]), float("nan")
    return float(numbers.mean()), float(numbers.std(ddof=1) / np.sqrt(numbers.size))


def interquartile_mean(scores: Sequence[float] | Floats) -> float:
    """Mean of the middle half of all scores; a quarter, rounded down, is cut from each end."""
    ordered = np.sort(np.asarray(scores, np.float64), axis=None)
    cut = int(_TRIMMED * ordered.size)
    return float(ordered[cut : ordered.size - cut].mean()) if ordered.size else float("nan")


def interquartile_estimate(
    strata: Sequence[Sequence[float]], seed: int = 0, resamples: int = _RESAMPLES
) -> Estimate:
    """Interquartile mean over all strata with a stratified bootstrap interval of 95 %.

    A stratum holds the scores of one task; runs are drawn again within each, so that every
    resample has as many runs of every task as there were.
    """
    groups = [np.asarray(stratum, np.float64) for stratum in strata if len(stratum)]
    if not groups:
        return Estimate(float("nan"), float("nan"), float("nan"))
    rng = np.random.default_rng(seed)
    drawn = [
        interquartile_mean(
            np.concatenate([group[rng.integers(group.size, size=group.size)] for group in groups])
        )
        for _ in range(resamples)
    ]
    tail = 50 * (1 - _LEVEL)
    low, high = np.percentile(drawn, [tail, 100 - tail])
    return Estimate(interquartile_mean(np.concatenate(groups)), float(low), float(high))


def mean_band(values: Floats) -> Estimate:
    """The mean, one standard error to either side."""
    mean, error = mean_and_error(values)
    return Estimate(mean, mean - error, mean + error)


def interquartile_band(values: Floats) -> Estimate:
    """The interquartile mean, between the quartiles."""
    low, high = np.quantile(values, [0.25, 0.75]) if len(values) > 1 else (math.nan, math.nan)
    return Estimate(interquartile_mean(values), float(low), float(high))


def read_off(curves: Sequence[Curve]) -> tuple[list[float], list[Floats]]:
    """Every step at which one of the curves has a point, and there the values of all that reach it.

    Between two points of a curve the straight line counts, before its first and after its last
    nothing does. Values that are not finite are left out.
    """
    finite = [curve for curve in map(_finite, curves) if curve[0]]
    if not finite:
        return [], []
    grid = np.unique(np.concatenate([np.asarray(steps, np.float64) for steps, _ in finite]))
    rows = np.stack([np.interp(grid, *curve, left=np.nan, right=np.nan) for curve in finite])
    return grid.tolist(), [column[~np.isnan(column)] for column in rows.T]  # (curves, grid)


def band(curves: Sequence[Curve], summary: Summary = mean_band) -> Band:
    """The summary of curves along their steps, over the runs that got that far."""
    steps, columns = read_off(curves)
    found = [summary(column) for column in columns]
    return Band(
        steps,
        [estimate.value for estimate in found],
        [estimate.low for estimate in found],
        [estimate.high for estimate in found],
        [len(column) for column in columns],
    )


def _finite(curve: Curve) -> tuple[list[float], list[float]]:
    kept = {step: value for step, value in zip(*curve, strict=True) if math.isfinite(value)}
    return list(kept), list(kept.values())
