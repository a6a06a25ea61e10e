"""How fast a run learns, and how long it will take at that."""

from __future__ import annotations

from collections import deque

_RECENT = 120.0
"""Seconds that the rate is taken over."""
_APART = 0.5
"""Seconds between two looks that are remembered."""
_LEAST = 1.0
"""Seconds that a rate needs."""


class Pace:
    """The recent rate of updates.

    It is taken between moments at which updates had just been made, so that steps, evaluations and
    whole bursts of updates are in it, and the warm-up and the compilation before the first are not.
    """

    def __init__(self) -> None:
        self._before: int | None = None
        self._moments: deque[tuple[float, int]] = deque()

    def see(self, updates: int, now: float) -> None:
        """Look at the count of updates."""
        if self._before is None or updates < self._before:  # a run that went back
            self._moments.clear()
        elif updates > self._before and (not self._moments or now - self._moments[-1][0] >= _APART):
            self._moments.append((now, updates))
            while len(self._moments) > 2 and now - self._moments[1][0] >= _RECENT:
                self._moments.popleft()
        self._before = updates

    @property
    def rate(self) -> float | None:
        """Updates per second; None as long as it is not known."""
        if len(self._moments) < 2:
            return None
        (began, first), (ended, last) = self._moments[0], self._moments[-1]
        return (last - first) / (ended - began) if ended - began >= _LEAST else None

    def left(self, updates_left: int) -> float | None:
        """Seconds until so many further updates are made; None as long as it is not known."""
        if updates_left == 0:
            return 0.0
        return updates_left / self.rate if self.rate else None


def in_words(seconds: float | None) -> str:
    """A time that is left, as people read it."""
    if seconds is None:
        return "unknown"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}:{minutes:02}:{rest:02}"
    days, hours = divmod(hours, 24)
    if days < 365:
        return f"{days} d {hours} h"
    return f"{days // 365:,} years"
