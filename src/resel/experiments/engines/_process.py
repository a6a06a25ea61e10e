"""One run as a process that never outlives whoever watches over it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

PATIENCE = 120.0
"""Seconds a stopped run gets to save."""
_PR_SET_PDEATHSIG = 1
_TAIL = 4000
_POLL = 0.2


def start(
    command: Sequence[str], run: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Run a command with its output appended to console.log in the run directory.

    It has a session of its own, so that Ctrl-C reaches only us and we can let it save. If we are
    killed, Linux sends it SIGTERM, upon which it saves as well.
    """
    run.mkdir(parents=True, exist_ok=True)
    with (run / "console.log").open("ab") as log:
        return subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_end_with_parent(),
            env={**os.environ, **(environment or {})},
        )


def run_to_end(command: Sequence[str], run: Path) -> tuple[int, str]:
    """For whoever has nothing else to do: the exit code and what was said last.

    Interrupted, it lets the run save first.
    """
    process = start(command, run)
    try:
        while process.poll() is None:  # a wait for its end would not be interrupted by Ray
            time.sleep(_POLL)
    except KeyboardInterrupt:
        process.terminate()
        end(process)
    return process.returncode, last_words(run)


def last_words(run: Path) -> str:
    """The last line of a run's output, or its `Error:` paragraph: why it ended."""
    try:
        text = (run / "console.log").read_bytes()[-_TAIL:].decode("utf-8", "replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("Error:")]
    return (errors or lines or [""])[-1].removeprefix("Error: ")


def end(process: subprocess.Popen[bytes]) -> None:
    """Let a run that was asked to leave save; kill it if it takes too long."""
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _end_with_parent() -> Callable[[], None] | None:
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)  # before the fork, after which little may be done
    parent = os.getpid()

    def ask() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before we asked
            os._exit(128 + signal.SIGTERM)

    return ask
