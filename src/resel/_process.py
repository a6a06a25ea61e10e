"""Settings of the whole process, which the command makes and an import never does."""

from __future__ import annotations

import ctypes
import os
import sys

LAUNCHER = (sys.executable, "-m", "resel")
"""The command, in a process of its own."""
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_KEPT = 1 << 30


def prepare_process(threads: int, width: int) -> int:
    """Choose the CPU threads and keep freed memory for the next update; the threads chosen."""
    import torch  # the command's help needs none of it

    from resel.training.threads import suitable_threads

    wanted = suitable_threads(threads, width)
    if wanted is not None:
        torch.set_num_threads(wanted)
    _keep_freed_memory()
    return torch.get_num_threads()


def render_offscreen() -> None:
    """Let simulators draw without a screen, and without complaining that there is none."""
    if sys.platform.startswith("linux") and not os.environ.get("DISPLAY"):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def _keep_freed_memory() -> None:
    """Activations of some megabytes would otherwise be mapped anew in every update."""
    if not sys.platform.startswith("linux"):
        return
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(_M_MMAP_THRESHOLD, _KEPT)
        libc.mallopt(_M_TRIM_THRESHOLD, _KEPT)
    except (OSError, AttributeError):  # another C library: only a saving is lost
        return
