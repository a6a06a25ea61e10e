"""How long a run has trained, over every process it was continued in."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from resel.training.validation import maybe


class Clock:
    """Seconds on the wall, and those of the processor, which other jobs do not lengthen."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.cpu_seconds: float | None = 0.0
        """Of all threads of this process, and of evaluations beside it; None if a part of them was
        not counted."""
        self._began, self._cpu_began = 0.0, 0.0

    def start(self) -> None:
        """Count from now on."""
        self._began = time.monotonic() - self.seconds
        self._cpu_began = time.process_time() - (self.cpu_seconds or 0.0)

    def tick(self) -> None:
        """Count up to now."""
        self.seconds = time.monotonic() - self._began
        if self.cpu_seconds is not None:
            self.cpu_seconds = time.process_time() - self._cpu_began

    def add_cpu(self, seconds: float) -> None:
        """Count the processor's time of another process too."""
        self._cpu_began -= seconds

    def state(self) -> dict[str, Any]:
        """A document of plain data."""
        return {"seconds": self.seconds, "cpu_seconds": self.cpu_seconds}

    def restore(self, document: Mapping[str, Any]) -> None:
        """Take over what `state` gave; older checkpoints do not know of the processor's time."""
        seconds = float(document["seconds"])
        self.cpu_seconds = maybe(document, "cpu_seconds") if "cpu_seconds" in document else None
        self.seconds = seconds


def duration(seconds: float) -> str:
    """As people say it."""
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            number = seconds / size
            return f"{number:,.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"
    return f"{seconds:.0f} s"
