"""Whether kernels are being compiled at this moment, for whoever waits for them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

_BETWEEN = 1.0
"""Seconds from one kernel to the next that are taken for a part of it."""


class _Watch(event.Listener):  # type: ignore[misc]
    """Compilations that are under way, one inside the other, and when the last one ended."""

    depth, ended = 0, -_BETWEEN

    def on_start(self, event: Any) -> None:
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        self.ended = time.monotonic()


_watch = _Watch()
event.register("numba:compile", _watch)


@contextmanager
def elsewhere() -> Iterator[None]:
    """Kernels are compiled by another process, and waited for."""
    _watch.on_start(None)
    try:
        yield
    finally:
        _watch.on_end(None)


def is_compiling() -> bool:
    """Whether Numba is at work; what began before this module was imported is not seen."""
    return _watch.depth > 0 or time.monotonic() - _watch.ended < _BETWEEN
