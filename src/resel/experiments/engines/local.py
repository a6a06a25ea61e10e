"""The engine of one machine: processes, as many as there are cores, GPUs or memory for."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from resel._children import end
from resel.experiments.engines._ledger import Ledger
from resel.experiments.engines._process import last_words, start
from resel.experiments.plan import Job

_POLL = 0.2


@dataclass
class _Running:
    job: Job
    process: subprocess.Popen[bytes]
    slot: int
    ending: bool = False
    """Whether it was asked to leave: a second time it would not save."""


def run_local(
    ledger: Ledger,
    tick: Callable[[], None],
    *,
    slots: int,
    gpus: int = 0,
    memory: int | None = None,
) -> None:
    """Work through the ledger; returns when no job is left that may be tried again.

    `memory` bounds the sum of what the running jobs are planned to take; one always runs. With
    GPUs, slots take them in turn. When interrupted, runs are asked to save before it is passed on.
    """
    running: list[_Running] = []
    not_before: dict[Job, float] = {}
    try:
        while running or ledger.waiting():
            for job in ledger.waiting():
                if len(running) >= slots or not _fits(job, running, memory):
                    break
                if time.monotonic() < not_before.get(job, 0.0) or ledger.held(job):
                    continue
                running.append(_begin(job, ledger, running, slots, gpus))
            tick()
            for item in running:
                if not item.ending and ledger.unwanted(item.job):
                    item.ending = True
                    item.process.terminate()
            time.sleep(_POLL)
            for item in [item for item in running if item.process.poll() is not None]:
                running.remove(item)
                wait = ledger.ended(item.job, item.process.returncode, _problem(item))
                not_before[item.job] = time.monotonic() + wait
        tick()
    finally:
        for item in running:
            if not item.ending:
                item.process.terminate()  # all at once, so that they save side by side
        for item in running:
            end(item.process)
            ledger.stopped(item.job)


def _fits(job: Job, running: list[_Running], memory: int | None) -> bool:
    taken = sum(item.job.memory for item in running)
    return not running or memory is None or taken + job.memory <= memory


def _begin(job: Job, ledger: Ledger, running: list[_Running], slots: int, gpus: int) -> _Running:
    slot = min(set(range(slots)) - {item.slot for item in running})
    environment = {"CUDA_VISIBLE_DEVICES": str(slot % gpus)} if gpus else {}
    ledger.started(job)
    return _Running(job, start(job.command, job.run, environment), slot)


def _problem(item: _Running) -> str:
    code = item.process.returncode
    how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    said = last_words(item.job.run)
    return f"{how}: {said}" if said else how
