"""Work shared between threads: every thread once, in torch's team and in the pool."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from resel.networks.ops.cpu import threads as pool


@pytest.fixture(params=["team", "pool"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "pool":
        monkeypatch.setattr(pool, "_torch_team", lambda: None)
    return str(request.param)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_every_thread_runs_once(way: str, threads: int) -> None:
    lock, seen = threading.Lock(), []

    def kernel(thread: int, of: int) -> None:
        with lock:
            seen.append((thread, of))

    pool.run_threads(kernel, threads)
    assert sorted(seen) == [(thread, threads) for thread in range(threads)]


def test_threads_run_at_the_same_time(way: str) -> None:
    meeting = threading.Barrier(2, timeout=20)
    pool.run_threads(lambda thread, of: meeting.wait(), 2)
    assert not meeting.broken


@pytest.mark.parametrize("bad", [0, 1])
def test_errors_come_back(way: str, bad: int) -> None:
    def kernel(thread: int, of: int) -> None:
        if thread == bad:
            raise ArithmeticError(f"in thread {thread}")

    with pytest.raises(ArithmeticError, match=f"in thread {bad}"):
        pool.run_threads(kernel, 2)
    pool.run_threads(lambda thread, of: None, 2)  # and the threads are still there


@pytest.mark.skipif(sys.platform != "linux", reason="torch's wheels elsewhere use another OpenMP")
def test_torch_threads_are_used_on_linux() -> None:
    # In a process of its own: other packages bring copies of OpenMP, and with two none is used.
    code = "from resel.networks.ops.cpu import threads; assert threads._torch_team() is not None"
    subprocess.run([sys.executable, "-c", code], check=True)
