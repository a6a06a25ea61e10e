"""Processes that stem from another, and whether they are gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def children(pid: int) -> list[int]:
    """All processes that stem from this one and are alive, but for Python's own helper."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            helper = b"resource_tracker" in (entry / "cmdline").read_bytes()
            if state != "Z" and not helper:
                parents.setdefault(int(parent), []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        own = parents.get(todo.pop(), [])
        found += own
        todo += own
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(who: Callable[[], set[int]], seconds: float = 20) -> None:
    """Wait until nobody is left."""
    deadline = time.monotonic() + seconds
    while left := who():
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.02)
