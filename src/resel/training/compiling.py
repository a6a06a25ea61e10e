"""Kernels of updates that are compiled beside the warm-up, in a process of its own.

That process leaves them on the disk, where the run finds them: no number of the run depends on it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from resel.config import Config
from resel.networks import Dimensions, compiling_elsewhere, kernels_are_compiled
from resel.training.progress import Callback, TrainProgress
from resel.training.trainer import Trainer
from resel.training.workload import compile_kernels

_COMMAND = (sys.executable, "-c", "from resel.training.compiling import main; main()")
_LOOK_EVERY = 0.05
_SIZES = (3, 2)
"""Of observations and actions: kernels are the same for all."""


def compiles(trainer: Trainer) -> bool:
    """Whether kernels that it needs were never compiled here."""
    on_cpu = trainer.learner.device.type == "cpu"
    return on_cpu and not kernels_are_compiled(trainer.learner.networks.values())


def compiles_beside(trainer: Trainer) -> bool:
    """Whether there are kernels to compile, a warm-up to do it in and a core to do it on."""
    if trainer.step >= trainer.config.training.warmup_steps or _cores() < 2:
        return False
    return compiles(trainer)


def compiling_note(trainer: Trainer) -> str | None:
    """Why the first run takes a while, for people; None for any later one."""
    if not compiles(trainer):
        return None
    beside = " while the warm-up plays" if compiles_beside(trainer) else ""
    return f"Compiling kernels for this machine{beside}: about a minute, once."


@contextmanager
def compiled_beside(trainer: Trainer) -> Iterator[list[Callback]]:
    """Compile during the block if it is worth it; what is given must be called after every step.

    Before the first update it waits for what is not compiled yet. A process that fails is nobody's
    trouble: the run then compiles by itself.
    """
    if not compiles_beside(trainer):
        yield []
        return
    try:
        process = subprocess.Popen(
            _COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    except OSError:  # as in a program that Python is a part of, and no command
        yield []
        return
    assert process.stdin is not None
    given = {"config": trainer.config.to_json(), "discrete": trainer.learner.dims.discrete}
    try:
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(given, default=str).encode() + b"\n")
            process.stdin.flush()
        yield [_Waiting(trainer, process)]
    finally:
        process.kill()
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.wait()


class _Waiting:
    """Holds a run up at the end of its warm-up until the kernels are there, or it is stopped."""

    def __init__(self, trainer: Trainer, process: subprocess.Popen[bytes]) -> None:
        self._trainer, self._process = trainer, process
        settings = trainer.config.training
        self._last = settings.warmup_steps - settings.num_envs

    def __call__(self, progress: TrainProgress) -> None:
        if progress.step < self._last or self._process.poll() is not None:
            return
        with compiling_elsewhere():
            while self._process.poll() is None and not self._trainer.stopping:
                time.sleep(_LOOK_EVERY)


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1


def main() -> None:
    """Compile for the config that is read, unless whoever gave it has gone."""
    given = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    dims = Dimensions(*_SIZES, discrete=given["discrete"])
    compile_kernels(Config.from_json(given["config"]), dims)
    os._exit(0)  # the thread may be in the middle of a read


def _leave_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)
