"""Memory of this process, in bytes."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

MB = 1e6
_RESET_PEAK = "5"


@dataclass
class Peak:
    """Most memory resident at once, and how much of that came on top of the state before."""

    total: int = 0
    increase: int = 0


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """The peak while the block runs; freed memory that was kept is given back before.

    Where the system cannot forget an earlier peak (other than Linux), that peak may hide this one.
    """
    release_freed_memory()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
    before = resident_bytes()
    peak = Peak()
    yield peak
    peak.total = _peak_bytes()
    peak.increase = max(0, peak.total - before)


def resident_bytes() -> int:
    """Memory the process has now (elsewhere than on Linux: has had at most)."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return _peak_bytes()
    return pages * os.sysconf("SC_PAGE_SIZE")


def release_freed_memory() -> None:
    """Hand memory that was freed but kept back to the system."""
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL("libc.so.6").malloc_trim(0)


def _peak_bytes() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
