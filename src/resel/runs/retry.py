"""Writing again when the disk refused: a full disk is often emptied by somebody."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from resel.errors import StorageError

_Result = TypeVar("_Result")
_LOOK_EVERY = 0.2


def _never() -> bool:
    return False


@dataclass(frozen=True)
class RetryWrites:
    """How often a write is tried, and how long the pauses between the tries are."""

    tries: int = 1
    wait: float = 0.0
    """Seconds before the second try; each further pause is twice as long."""
    stop: Callable[[], bool] = _never
    """Asked during a pause; once it says yes there is only one more try."""

    def __call__(self, action: Callable[[], _Result]) -> _Result:
        """Do it, as often as needed and allowed."""
        for number in range(1, self.tries):
            try:
                return action()
            except StorageError as error:
                if self.stop():
                    raise
                pause = self.wait * 2.0 ** (number - 1)
                warnings.warn(
                    f"{error} The run pauses; try {number + 1} of {self.tries} follows in "
                    f"{pause:g} s.",
                    stacklevel=2,
                )
                self._sleep(pause)
        return action()

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self.stop():
            time.sleep(min(left, _LOOK_EVERY))
