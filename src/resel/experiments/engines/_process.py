"""One run as a process that never outlives whoever watches over it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from resel._children import end, end_with_parent

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
            preexec_fn=end_with_parent(),
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
