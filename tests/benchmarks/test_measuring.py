"""The instruments: order, medians, memory, and doubts about the machine."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from resel.benchmarks import update
from resel.benchmarks._memory import peak_memory, resident_bytes
from resel.benchmarks._timing import (
    Laps,
    Timing,
    find_doubts,
    interleave,
    keep_busy,
    synchronize,
    watch_machine,
)
from resel.benchmarks.scaling import sweeps


def test_calls_take_turns() -> None:
    order = ""

    def call(name: str) -> Laps:
        nonlocal order
        order += name
        assert gc.isenabled() == (len(order) <= 2)  # on while it warms up
        return {name: float(len(order))}

    timings = interleave([lambda: call("a"), lambda: call("b")], repetitions=2)
    assert order == "ababab"
    assert timings["a"] == Timing.of([3.0, 5.0]) and timings["b"] == Timing.of([4.0, 6.0])
    assert gc.isenabled()


@pytest.mark.parametrize(("name", "waits"), [("cuda:1", True), ("cpu", False)])
def test_only_a_gpu_is_waited_for(name: str, waits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    synchronize(torch.device(name))
    assert waited == [torch.device(name)] * waits


def test_a_round_is_timed_from_end_to_end_of_what_the_device_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[Any] = []
    gpu = torch.device("cuda")
    learner = SimpleNamespace(updates_to_log=2, device=gpu, update=events.append)
    workload: Any = SimpleNamespace(
        learner=learner, sample=lambda: events.append("draw") or "learn"
    )
    monkeypatch.setattr(update, "synchronize", events.append)
    monkeypatch.setattr(update.time, "perf_counter", lambda: events.append("read") or 1.0)
    assert set(update._one_round(workload)) == {"update", "update_cpu", "sampling"}
    wait = [gpu, "read"]
    assert events == [*wait, "draw", "draw", *wait, "learn", "learn", *wait]


def test_a_median_in_milliseconds() -> None:
    timing = Timing.of([0.001 * i for i in range(11)])
    assert timing.fields("x_ms") == pytest.approx({"x_ms": 5, "x_ms_p10": 1, "x_ms_p90": 9})


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="it looks into /proc")
def test_who_keeps_the_machine_busy_ends_with_us() -> None:
    program = (
        "import os, time; from resel.benchmarks._timing import keep_busy\n"
        "with keep_busy(2):\n"
        "    here = f'/proc/{os.getpid()}/task/{os.getpid()}/children'\n"
        "    print(*open(here).read().split(), flush=True); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    burning = [Path("/proc") / number for number in killed.stdout.split()]
    assert len(burning) == 2
    deadline = time.monotonic() + 20
    while any(place.exists() for place in burning) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(place.exists() for place in burning)
    before = os.times()
    with keep_busy(1):
        time.sleep(1.0)
    after = os.times()
    assert after.children_user - before.children_user > 0.05


@pytest.mark.parametrize(
    ("threads", "load", "used", "by_others", "told"),
    [
        (1, 1.2, 1.0, 0.1, []),
        (2, 2.5, 1.5, -0.1, []),
        (1, 2.0, 1.0, 0.0, ["load is 2.0"]),
        (1, 1.0, 1.0, 0.6, ["processes kept 0.6 processors"]),
        (2, 0.0, 0.5, 0.0, ["50% of one processor"]),
        (1, 1.0, 1.8, 0.0, ["more threads than the 1 asked for"]),
        (
            1,
            9.0,
            0.1,
            2.0,
            ["load is 9.0", "processes kept 2.0 processors", "10% of one processor"],
        ),
    ],
)
def test_doubts(threads: int, load: float, used: float, by_others: float, told: list[str]) -> None:
    doubts = find_doubts(threads, load, used, by_others)
    assert len(doubts) == len(told)
    assert all(part in doubt for part, doubt in zip(told, doubts, strict=True))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="others cannot be seen")
def test_others_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.process_time", lambda: 0.0)  # all that we do, others seem to do
    with watch_machine() as doubts:
        end = time.perf_counter() + 0.5
        while time.perf_counter() < end:
            pass
    assert any("processors busy meanwhile" in doubt for doubt in doubts)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak cannot be reset")
def test_the_peak_is_that_of_the_block() -> None:
    np.ones(30_000_000)  # an earlier peak, gone again
    with peak_memory() as peak:
        np.ones(10_000_000)
    assert 75e6 < peak.increase < 150e6
    assert peak.total > peak.increase and resident_bytes() > 1e6


def test_points_of_the_sweeps() -> None:
    plan = sweeps(quick=False)
    assert [point.length for point in plan["length"]][0::7] == [100, 16_000]
    assert all(point.steps == max(1000, point.length) for point in plan["length"])
    assert [point.blocks for point in plan["blocks"]] == [1, 2, 3, 4]
    assert all(set(points) <= set(plan[name]) for name, points in sweeps(quick=True).items())
