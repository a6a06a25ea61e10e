"""What signals do to a run at a terminal."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from resel.cli.console import ERR
from resel.networks import is_compiling
from resel.training import Trainer, stopped_by

_STOPPING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopping(trainer: Trainer) -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM end the run after the current step; a second one ends it at once."""
    with _acknowledging(), stopped_by(trainer, _STOPPING) as caught:
        yield caught


@contextmanager
def _acknowledging() -> Iterator[None]:
    """Say at once that a signal has come.

    Python calls handlers between two lines of its own, which may be a minute apart while a kernel
    is compiled. The system writes each signal into a pipe before that, and a thread reads it.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    thread = threading.Thread(target=_acknowledge, args=(reading,), daemon=True)
    thread.start()
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writing)  # which ends the thread
        thread.join()
        os.close(reading)


def _acknowledge(pipe: int) -> None:
    seen = 0
    while numbers := os.read(pipe, 64):
        for _ in [number for number in numbers if number in _STOPPING]:
            seen += 1
            if seen == 1:
                wait = ", which waits for kernels that are being compiled" if is_compiling() else ""
                ERR.print(
                    f"Stopping after this step{wait}. Once more leaves at once, without saving.",
                    soft_wrap=True,
                )
