"""Whether kernels are being compiled at this moment, for whoever waits for them."""

from __future__ import annotations

from typing import Any

from numba.core import event


class _Count(event.Listener):  # type: ignore[misc]
    """How many compilations are under way, one inside the other."""

    depth = 0

    def on_start(self, event: Any) -> None:
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1


_count = _Count()
event.register("numba:compile", _count)


def is_compiling() -> bool:
    """Whether Numba is at work; what began before this module was imported is not counted."""
    return _count.depth > 0
