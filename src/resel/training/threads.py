"""How many CPU threads learning and acting use, and the caller's number put back afterwards.

Networks below the paper's width have too little to do at a time to be shared between cores, and
threads that wait for each other beside simulators and other runs cost many times what they bring.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from resel.config import Config

PAPER_WIDTH = 256
_SPARE_LOAD = 0.75
"""Of a machine that is not busy, beyond one for each core."""
_SPIN_SETTINGS = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


def suitable_threads(threads: int, width: int) -> int | None:
    """Those asked for, one for a narrow network, or None: as many as torch has now."""
    return threads or (1 if width < PAPER_WIDTH else None)


def width_of(config: Config) -> int:
    """The width that decides; a network without memory has little to share at any."""
    return int(getattr(config.network, "width", 0))


@contextmanager
def threads_for(config: Config, so_far: int | None = None) -> Iterator[None]:
    """Torch with the threads that suit a config, and as it was afterwards.

    A run that goes on takes those it had `so_far`, if its config leaves the choice.
    """
    asked, before = config.training.threads or so_far or 0, None
    wanted = suitable_threads(asked, width_of(config))
    if wanted is not None and wanted != torch.get_num_threads():
        before = torch.get_num_threads()
        torch.set_num_threads(wanted)
    try:
        yield
    finally:
        if before is not None:
            torch.set_num_threads(before)


def usable_cores() -> int:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def is_busy(load: float, cores: int) -> bool:
    """Whether so many processes, on the average of a minute, have to wait for each other."""
    return load > cores + _SPARE_LOAD


def why_threads_spin() -> str | None:
    """What several threads would cost here, if the machine is busy and they wait by spinning.

    How they wait is settled when torch is loaded; the command sees to it before.
    """
    threads, cores, load = torch.get_num_threads(), usable_cores(), os.getloadavg()[0]
    settled = any(name in os.environ for name in _SPIN_SETTINGS)
    if threads == 1 or settled or not is_busy(load, cores):
        return None
    return (
        f"This machine is busy (its load is {load:.1f}, with {cores} cores), and torch's {threads} "
        "threads wait for each other by spinning, which can take several times the processor time "
        "of one: give threads=1, or start Python with GOMP_SPINCOUNT=20000 in its environment."
    )
