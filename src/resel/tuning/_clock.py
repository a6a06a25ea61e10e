"""Wall time that a folder has been worked on, over all starts, also of several at a time."""

from __future__ import annotations

import json
import os
import re
import time
from contextlib import suppress
from pathlib import Path

from resel.errors import ConfigError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_WORD = re.compile(r"(?:\d+(?:\.\d+)?[dhms])+")
_LONGEST = 365 * 86400.0
_EVERY = 2.0


def parse_budget(text: str) -> float:
    """Seconds, from `2h`, `90m`, `1h30m` or `2d`."""
    if _WORD.fullmatch(text) is None:
        raise ConfigError(
            f"--budget {text!r} is no time: write a number and a unit, as in 30m, 2h, 1h30m or 2d."
        )
    parts = re.findall(r"([\d.]+)([dhms])", text)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if not 1 <= seconds <= _LONGEST:
        raise ConfigError(f"--budget {text} cannot work: it must lie between 1s and 365d.")
    return seconds


class Clock:
    """Counts against a budget; the time is kept beside the trials, and a kill loses seconds."""

    def __init__(self, folder: Path, budget: float | None) -> None:
        self.budget = budget
        self._folder, self._began, self._written = folder, time.time(), 0.0
        self._own = folder / f"{int(self._began * 1000)}-{os.getpid()}.json"

    def spent(self) -> float:
        """Seconds so far; what overlaps counts once."""
        total, until = 0.0, 0.0
        for began, ended in sorted([*self._others(), (self._began, time.time())]):
            total += max(0.0, ended - max(began, until))
            until = max(until, ended)
        return total

    @property
    def left(self) -> float | None:
        """Seconds that are left; None without a budget."""
        return None if self.budget is None else self.budget - self.spent()

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        left = self.left
        return left is not None and left <= 0

    def tick(self, now: bool = False) -> None:
        """Write down how long it has been, now and then; on a full disk the next time will do."""
        if now or time.time() - self._written > _EVERY:
            self._written = time.time()
            with suppress(OSError):
                self._folder.mkdir(parents=True, exist_ok=True)
                self._own.write_text(json.dumps([self._began, self._written]))

    def _others(self) -> list[tuple[float, float]]:
        found = []
        for path in self._folder.glob("*.json"):
            try:
                began, ended = json.loads(path.read_bytes())
                found.append((float(began), float(ended)))
            except (OSError, ValueError, TypeError):  # being written
                continue
        return found
