"""The axis of returns: a bad start does not squeeze what was learned."""

from __future__ import annotations

import math

import pytest

from resel.reports.axis import fitted_axis

STEPS = list(range(10))
LEARNED = [-1500.0, -900.0, -180.0, *[-140.0, -136.0, -139.0, -137.0, -135.0, -138.0, -136.0]]


def test_the_second_half_fills_the_axis() -> None:
    fitted = fitted_axis([(STEPS, LEARNED)])
    assert fitted is not None
    low, high, cut = fitted
    assert -250 < low < -180 and -135 < high < -100 and cut == -1500


def test_a_short_run_whose_start_was_far_below() -> None:
    fitted = fitted_axis([(STEPS[:8], [-300.0, -100.0, -26.0, -9.0, -6.5, -6.2, -6.1, -6.4])])
    assert fitted is not None and -30 < fitted[0] < -10


def test_a_peak_that_was_lost_again_is_shown() -> None:
    values = [-9000.0, 300.0, *[90.0, 110.0] * 4]
    fitted = fitted_axis([(STEPS, values)])
    assert fitted is not None and fitted[1] > 300 and fitted[0] < 90


def test_the_shading_of_the_second_half_is_shown() -> None:
    edges = [(STEPS, [y + 60 for y in LEARNED]), (STEPS, [y - 60 for y in LEARNED])]
    fitted = fitted_axis([(STEPS, LEARNED)], edges)
    assert fitted is not None and fitted[0] < -199 and fitted[1] > -75


@pytest.mark.parametrize(
    "values",
    [
        [],
        [math.nan] * 10,
        [5.0] * 10,
        [-1500.0, -140.0],
        [float(x) for x in STEPS],  # it learns all the time
        [0.0, 0.0, 0.0, *[1.0] * 7],  # it is solved: only the way up is of interest
        [-1500.0, -1400.0, -1500.0, -1450.0, -1500.0, *[-136.0, -139.0] * 2, -135.0],  # late
    ],
)
def test_nothing_is_cut_off(values: list[float]) -> None:
    assert fitted_axis([(STEPS[: len(values)], values)]) is None


def test_a_method_that_learns_nothing_stays_in_sight() -> None:
    assert fitted_axis([(STEPS, LEARNED), (STEPS, [-1500.0, -1490.0] * 5)]) is None
