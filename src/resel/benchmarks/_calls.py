"""Commands that are run to their end in processes of their own, and that end with us."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass

from resel._children import end, end_with_parent


@dataclass(frozen=True)
class Done:
    """A process that has ended."""

    code: int
    said: str
    fault: str
    """What it said of how it failed."""
    seconds: float
    processor_seconds: float


def call(words: Sequence[str]) -> Done:
    """Run a command to its end, however it ends; if we are interrupted, it is asked to leave.

    It has a session of its own: Ctrl-C reaches only us, and the one signal that we pass on lets a
    run save, where a second one would end it at once.
    """
    before, began = os.times(), time.monotonic()
    # Files, as pipes that nobody reads could hold up a process that is to leave.
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=complaints,
            start_new_session=True,
            preexec_fn=end_with_parent(),
        )
        try:
            process.wait()
        except BaseException:
            process.terminate()
            try:
                end(process)
            finally:  # at once if a second signal comes meanwhile
                process.kill()
                process.wait()
            raise
        texts = []
        for file in (said, complaints):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
    after, seconds = os.times(), time.monotonic() - began
    used = after.children_user + after.children_system
    used -= before.children_user + before.children_system
    fault = texts[1].strip() or texts[0].strip()
    if process.returncode < 0:
        fault = f"{fault}\nkilled by signal {-process.returncode}".lstrip()
    return Done(process.returncode, texts[0], fault, seconds, used)
