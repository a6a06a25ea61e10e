"""A disk that refuses for a while is waited for; one that goes on refusing is not."""

from __future__ import annotations

import itertools
import time

import pytest

from resel.errors import RunDirectoryError, StorageError
from resel.runs import RetryWrites


class Disk:
    """Refuses so many times."""

    def __init__(self, refusals: int) -> None:
        self.refusals, self.calls = refusals, 0

    def __call__(self) -> int:
        self.calls += 1
        if self.calls <= self.refusals:
            raise StorageError(f"refusal {self.calls}.")
        return self.calls


def test_it_tries_again() -> None:
    with pytest.warns(UserWarning, match="The run pauses") as told:
        assert RetryWrites(4, 0.001)(Disk(2)) == 3
    assert [str(warning.message) for warning in told] == [
        "refusal 1. The run pauses; try 2 of 4 follows in 0.001 s.",
        "refusal 2. The run pauses; try 3 of 4 follows in 0.002 s.",
    ]


def test_it_gives_up() -> None:
    disk = Disk(10)
    with (
        pytest.warns(UserWarning, match="The run pauses"),
        pytest.raises(StorageError, match="refusal 3"),
    ):
        RetryWrites(3, 0.001)(disk)
    assert disk.calls == 3


def test_the_default_does_not_wait() -> None:
    disk = Disk(1)
    with pytest.raises(StorageError):
        RetryWrites()(disk)
    assert disk.calls == 1


def test_other_faults_are_not_tried_again() -> None:
    calls = itertools.count(1)

    def wrong_place() -> None:
        next(calls)
        raise RunDirectoryError("a file is in the way")

    with pytest.raises(RunDirectoryError):
        RetryWrites(5, 100)(wrong_place)
    assert next(calls) == 2


def test_a_request_to_stop_ends_the_pause() -> None:
    """SIGTERM must not wait for minutes."""
    disk = Disk(10)
    stopped = iter([False, False, True, True, True, True])
    started = time.monotonic()
    with pytest.warns(UserWarning, match="60 s"), pytest.raises(StorageError, match="refusal 2"):
        RetryWrites(9, 60, lambda: next(stopped))(disk)
    assert time.monotonic() - started < 30 and disk.calls == 2
