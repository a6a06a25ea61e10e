"""Scores over seeds, against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from resel.analysis.statistics import (
    band,
    interquartile_band,
    interquartile_estimate,
    interquartile_mean,
    mean_and_error,
    read_off,
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
    steps, values = read_off([([0, 10], [0, 100]), ([5], [7])])
    assert steps == [0, 5, 10]
    assert [column.tolist() for column in values] == [[0], [50, 7], [100]]


def test_band_goes_on_with_the_runs_that_are_left() -> None:
    found = band([([1, 2, 3], [0, 0, 6]), ([1, 2], [2, 4]), ([], [])])
    np.testing.assert_array_equal(found.steps, [1, 2, 3])
    np.testing.assert_array_equal(found.middle, [1, 2, 6])
    np.testing.assert_array_equal(found.counts, [2, 2, 1])
    np.testing.assert_allclose(found.low, [0, 0, np.nan])
    np.testing.assert_allclose(found.high, [2, 4, np.nan])
    assert band([]).steps == []


def test_runs_are_read_off_between_their_evaluations_and_not_beyond() -> None:
    found = band([([0, 10, 20], [0.0, 10.0, 20.0]), ([0, 20], [2.0, 4.0])])
    assert found.steps == [0, 10, 20]
    assert found.middle == [1.0, 6.5, 12.0]
    assert found.counts == [2, 2, 2]
    assert found.high[0] - found.middle[0] == pytest.approx(1.0)
    short = band([([0, 10], [0.0, 1.0]), ([0], [4.0])])
    assert short.counts == [2, 1] and short.middle == [2.0, 1.0] and math.isnan(short.low[1])


def test_values_that_are_not_finite_do_not_count() -> None:
    found = band([([0, 10], [0.0, math.nan]), ([0, 10], [2.0, 4.0]), ([], [])])
    assert found.middle == [1.0, 4.0] and found.counts == [2, 1]
    assert band([([0], [math.inf])]).steps == []


def test_interquartile_mean_leaves_the_ends_out() -> None:
    assert interquartile_band(np.array([100.0, 2.0, 1.0, 4.0]))[0] == 3.0
    middle, low, high = interquartile_band(np.array([1.0, 2.0]))
    assert (middle, low, high) == (1.5, 1.25, 1.75)
