"""Wall-clock time of things that are run in turn, and whether the machine was free for it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

Laps = Mapping[str, float]
"""Seconds by name, as one call measured them itself."""

_SPARE_LOAD = 0.75
_MOST_BY_OTHERS = 0.2
_LEAST_USED = 0.85
_MOST_USED = 1.25


@dataclass(frozen=True)
class Timing:
    """Milliseconds: the median and how far the repetitions lie apart."""

    median: float
    p10: float
    p90: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Timing:
        """Of some repetitions."""
        p10, median, p90 = np.percentile(np.asarray(seconds) * 1e3, [10, 50, 90])
        return cls(float(median), float(p10), float(p90))

    def fields(self, name: str) -> dict[str, float]:
        """As entries of a result: `name`, `name_p10` and `name_p90`."""
        return {name: self.median, f"{name}_p10": self.p10, f"{name}_p90": self.p90}


def synchronize(device: torch.device) -> None:
    """Wait until a device has done all it was given: a GPU is given it, and the call returns."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds_of(call: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def forward_backward(
    name: str, forward: Callable[[], Tensor], inputs: list[Tensor]
) -> Callable[[], Laps]:
    """Times both directions; the gradients are dropped each time, not added up."""
    gradient = torch.randn_like(forward())

    def call() -> Laps:
        begin = time.perf_counter()
        y = forward()
        middle = time.perf_counter()
        torch.autograd.grad(y, inputs, gradient)
        end = time.perf_counter()
        return laps(name, begin, middle, end)

    return call


def laps(name: str, begin: float, middle: float, end: float) -> Laps:
    """Forward, backward and both, from three readings of the clock."""
    return {
        f"{name}_forward_ms": middle - begin,
        f"{name}_backward_ms": end - middle,
        f"{name}_ms": end - begin,
    }


def interleave(
    calls: Sequence[Callable[[], Laps]], repetitions: int, warmups: int = 1
) -> dict[str, Timing]:
    """Run the calls in turn, A B C A B C, so that a slow moment of the machine meets them all."""
    for _ in range(warmups):
        for call in calls:
            call()
    seconds: dict[str, list[float]] = {}
    with _without_collection():
        for _ in range(repetitions):
            for call in calls:
                for name, took in call().items():
                    seconds.setdefault(name, []).append(took)
    return {name: Timing.of(values) for name, values in seconds.items()}


@contextmanager
def _without_collection() -> Iterator[None]:
    """No garbage collection in the middle of a measurement."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def keep_busy(count: int) -> Iterator[None]:
    """So many processes that compute meanwhile; they end when this one does, however it ends."""
    # By number: we may be gone before it asks who started it.
    program = f"import os\nwhile os.getppid() == {os.getpid()}: sum(range(100_000))"
    with ExitStack() as started:
        for _ in range(count):
            process = subprocess.Popen([sys.executable, "-c", program])
            started.callback(process.wait)
            started.callback(process.kill)
        yield


@contextmanager
def watch_machine() -> Iterator[list[str]]:
    """Collects, in the list it gives, what speaks against the numbers taken meanwhile."""
    doubts: list[str] = []
    load = os.getloadavg()[0]
    machine, own, wall = _busy_seconds(), _own_seconds(), time.perf_counter()
    yield doubts
    elapsed = max(time.perf_counter() - wall, 1e-9)
    own = _own_seconds() - own
    doubts += find_doubts(
        torch.get_num_threads(),
        load=max(load, os.getloadavg()[0]),
        used=own / elapsed,
        by_others=(_busy_seconds() - machine - own) / elapsed,
    )


def find_doubts(threads: int, load: float, used: float, by_others: float) -> list[str]:
    """Signs of a busy machine: its load, and processors in use by us and by others."""
    doubts = []
    if load > threads + _SPARE_LOAD:
        doubts.append(
            f"the machine is busy: its load is {load:.1f} where these measurements make {threads}"
        )
    if by_others > _MOST_BY_OTHERS:
        doubts.append(f"other processes kept {by_others:.1f} processors busy meanwhile")
    if used < _LEAST_USED:
        doubts.append(f"this process was kept waiting: it had {used:.0%} of one processor")
    if used > _MOST_USED * threads:
        doubts.append(
            f"more threads than the {threads} asked for were running: {used:.1f} processors used"
        )
    return doubts


def _own_seconds() -> float:
    """Processor seconds of this process and of those it started that have ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def _busy_seconds() -> float:
    """Processor seconds that the whole machine has spent, or had taken away; 0 if unknown."""
    try:
        line = Path("/proc/stat").read_text().partition("\n")[0]
    except OSError:
        return 0.0
    user, nice, system, _idle, _waiting, *interrupts = map(int, line.split()[1:9])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")
