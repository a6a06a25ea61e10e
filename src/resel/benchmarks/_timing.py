"""Wall-clock time of things that are run in turn, and whether the machine was free for it."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

Laps = Mapping[str, float]
"""Seconds by name, as one call measured them itself."""

_SPARE_LOAD = 0.75
_LEAST_SHARE = 0.85
_MOST_SHARE = 1.25


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


def seconds_of(call: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


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
def watch_machine() -> Iterator[list[str]]:
    """Collects, in the list it gives, what speaks against the figures taken meanwhile."""
    doubts: list[str] = []
    load = os.getloadavg()[0]
    cpu, wall = time.process_time(), time.perf_counter()
    yield doubts
    threads = torch.get_num_threads()
    used = (time.process_time() - cpu) / max(time.perf_counter() - wall, 1e-9)
    doubts += find_doubts(threads, max(load, os.getloadavg()[0]), used)


def find_doubts(threads: int, load: float, used: float) -> list[str]:
    """Signs of a busy machine: its load, and processor seconds of ours per second of the clock."""
    doubts = []
    if load > threads + _SPARE_LOAD:
        doubts.append(
            f"the machine is busy: its load is {load:.1f} where these measurements make {threads}"
        )
    if used < _LEAST_SHARE:
        doubts.append(f"this process was kept waiting: it had {used:.0%} of one processor")
    if used > _MOST_SHARE * threads:
        doubts.append(
            f"more threads than the {threads} asked for were running: {used:.1f} processors used"
        )
    return doubts
