"""Figures over seeds, against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from resel.experiments.statistics import (
    align,
    band,
    interquartile_estimate,
    interquartile_mean,
    mean_and_error,
)


def test_mean_and_error() -> None:
    # Deviations -3, -1, 1, 3: variance 20 / 3, standard error sqrt(20 / 3 / 4).
    mean, error = mean_and_error([1.0, 3.0, 5.0, 7.0])
    assert mean == 4.0 and error == pytest.approx(math.sqrt(20 / 12))
    assert mean_and_error([2.0])[0] == 2.0 and math.isnan(mean_and_error([2.0])[1])
    assert all(map(math.isnan, mean_and_error([])))


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([8.0, 1, 2, 3, 4, 5, 6, 100], 4.5),  # 3, 4, 5 and 6 are left
        ([[1.0, 2], [3, 100]], 2.5),
        ([1.0, 2, 6], 3.0),  # a quarter of three is less than one
        ([7.0], 7.0),
    ],
)
def test_interquartile_mean(scores: list[float], expected: float) -> None:
    assert interquartile_mean(np.array(scores)) == expected


def test_bootstrap_draws_within_each_task() -> None:
    # Each task's runs agree, so every resample is the same, which mixing tasks would not give.
    found = interquartile_estimate([[0.0] * 4, [10.0] * 4])
    assert found == (5.0, 5.0, 5.0)


def test_bootstrap_interval_by_hand() -> None:
    # Resamples of {0, 1} of size 2 have interquartile means 0, 1/2, 1 with shares 1/4, 1/2, 1/4,
    # so the middle 95 % reach from 0 to 1.
    found = interquartile_estimate([[0.0, 1.0]])
    assert found == (0.5, 0.0, 1.0)
    narrow = interquartile_estimate([list(np.linspace(0, 1, 50))])
    assert 0.2 < narrow.low < 0.5 < narrow.high < 0.8
    assert narrow == interquartile_estimate([list(np.linspace(0, 1, 50))]), "seeded"
    assert all(map(math.isnan, interquartile_estimate([[]])))


def test_curves_are_read_off_between_their_points() -> None:
    rows = align([([0, 10], [0, 100]), ([5], [7])], np.array([0.0, 5, 10, 20]))
    expected = [[0, 50, 100, np.nan], [np.nan, 7, np.nan, np.nan]]
    np.testing.assert_array_equal(rows, expected)


def test_band_goes_on_with_the_runs_that_are_left() -> None:
    found = band([([1, 2, 3], [0, 0, 6]), ([1, 2], [2, 4]), ([], [])])
    np.testing.assert_array_equal(found.steps, [1, 2, 3])
    np.testing.assert_array_equal(found.mean, [1, 2, 6])
    np.testing.assert_array_equal(found.runs, [2, 2, 1])
    np.testing.assert_allclose(found.error, [1, 2, np.nan])
    assert band([]).steps.size == 0
