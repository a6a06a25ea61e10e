"""Work shared between threads: every group once, in torch's team and in the pool."""

from __future__ import annotations

import sys
import threading

import pytest

from resel.networks import _threads


@pytest.fixture(params=["team", "pool"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "pool":
        monkeypatch.setattr(_threads, "_torch_team", lambda: None)
    return str(request.param)


@pytest.mark.parametrize("groups", [1, 2, 3, 7])
def test_every_group_runs_once(way: str, groups: int) -> None:
    lock, seen = threading.Lock(), []

    def kernel(group: int, of: int) -> None:
        with lock:
            seen.append((group, of))

    _threads.run_groups(kernel, groups)
    assert sorted(seen) == [(group, groups) for group in range(groups)]


def test_groups_run_at_the_same_time(way: str) -> None:
    meeting = threading.Barrier(2, timeout=20)
    _threads.run_groups(lambda group, of: meeting.wait(), 2)
    assert not meeting.broken


@pytest.mark.parametrize("bad", [0, 1])
def test_errors_come_back(way: str, bad: int) -> None:
    def kernel(group: int, of: int) -> None:
        if group == bad:
            raise ArithmeticError(f"in group {group}")

    with pytest.raises(ArithmeticError, match=f"in group {bad}"):
        _threads.run_groups(kernel, 2)
    _threads.run_groups(lambda group, of: None, 2)  # and the threads are still there


@pytest.mark.skipif(sys.platform != "linux", reason="torch's wheels elsewhere use another OpenMP")
def test_torch_threads_are_used_on_linux() -> None:
    assert _threads._torch_team() is not None
