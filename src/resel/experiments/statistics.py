"""Figures over seeds: mean and standard error, interquartile mean, curves on a common grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_TRIMMED = 0.25
_RESAMPLES = 2000
_LEVEL = 0.95


class Estimate(NamedTuple):
    """A figure and the interval it lies in."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Band:
    """A learning curve over seeds: what a figure draws and shades."""

    steps: Floats
    mean: Floats
    error: Floats
    """Standard error; NaN where fewer than two runs are left."""
    runs: NDArray[np.int64]
    """How many runs have got that far."""


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


def align(curves: Sequence[tuple[Sequence[float], Sequence[float]]], grid: Floats) -> Floats:
    """Curves (steps, values) read off at the points of a grid, NaN outside their own steps."""
    rows = np.full((len(curves), grid.size), np.nan)
    for row, (steps, values) in zip(rows, curves, strict=True):
        if len(steps):
            row[:] = np.interp(grid, steps, values, left=np.nan, right=np.nan)
    return rows  # (curves, grid)


def common_grid(curves: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Floats:
    """Every step at which one of the curves has a point."""
    return np.unique(np.concatenate([np.asarray(steps, np.float64) for steps, _ in curves]))


def read_off(
    curves: Sequence[tuple[Sequence[float], Sequence[float]]],
) -> tuple[Floats, list[Floats]]:
    """Every step at which one of the curves has a point, and there the values of all that reach it.

    Between two points of a curve the straight line counts, before its first and after its last
    nothing does.
    """
    curves = [curve for curve in curves if len(curve[0])]
    if not curves:
        return np.empty(0), []
    grid = common_grid(curves)
    return grid, [column[~np.isnan(column)] for column in align(curves, grid).T]


def band(curves: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Band:
    """Mean and standard error of curves along their steps, over the runs that got that far."""
    grid, columns = read_off(curves)
    figures = np.array([mean_and_error(column) for column in columns]).reshape(-1, 2)
    runs = np.array([column.size for column in columns], np.int64)
    return Band(grid, figures[:, 0], figures[:, 1], runs)
