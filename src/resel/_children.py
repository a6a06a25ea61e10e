"""Processes that never outlive whoever watches over them."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable

PATIENCE = 120.0
"""Seconds a stopped run gets to save."""
_PR_SET_PDEATHSIG = 1


def end(process: subprocess.Popen[bytes]) -> None:
    """Let a run that was asked to leave save; kill it if it takes too long."""
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def end_with_parent() -> Callable[[], None] | None:
    """For `preexec_fn`: Linux sends the process SIGTERM when we are gone, killed or not."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)  # before the fork, after which little may be done
    parent = os.getpid()

    def ask() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before we asked
            os._exit(128 + signal.SIGTERM)

    return ask
