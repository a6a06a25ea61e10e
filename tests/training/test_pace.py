"""The time that is left comes from the recent rate of updates."""

from __future__ import annotations

from typing import Any

import pytest

from resel.training.pace import Pace, in_words


def test_nothing_is_promised_before_updates_were_seen() -> None:
    pace = Pace()
    for second in range(100):  # a warm-up of ten thousand steps a second
        pace.see(0, float(second))
    assert pace.left(45_000) is None and pace.rate is None
    pace.see(1, 160.0)  # the first update had its kernels compiled
    assert pace.left(45_000) is None
    for number in range(2, 42):
        pace.see(number, 160.0 + number / 2)
    assert pace.rate == pytest.approx(2.0, rel=0.05)
    assert pace.left(45_000) == pytest.approx(22_500, rel=0.05)


def test_only_the_recent_counts() -> None:
    pace = Pace()
    for second in range(200):
        pace.see(100 * second, float(second))
    for second in range(200, 400):
        pace.see(20_000 + second, float(second))
    assert pace.rate == pytest.approx(1.0)


def test_bursts_of_updates_are_taken_whole() -> None:
    pace, now, updates = Pace(), 0.0, 0
    for _ in range(3):  # an episode of 1000 quick steps, then 1000 updates in 500 s
        for _ in range(1000):
            now += 0.001
            pace.see(updates, now)
        updates, now = updates + 1000, now + 500
        pace.see(updates, now)
    assert pace.rate == pytest.approx(1000 / 501)


def test_a_run_that_goes_on_or_back_starts_to_look_anew() -> None:
    pace = Pace()
    pace.see(5000, 0.0)
    pace.see(5001, 5.0)
    assert pace.rate is None
    pace.see(5003, 7.0)
    assert pace.rate == pytest.approx(1.0)
    pace.see(4000, 8.0)
    assert pace.rate is None


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "unknown"),
        (59.6, "0:01:00"),
        (20_809, "5:46:49"),
        (7 * 86_400 + 3700, "7 d 1 h"),
        (1e12, "31,709 years"),
    ],
)
def test_times_in_words(seconds: Any, words: str) -> None:
    assert in_words(seconds) == words
