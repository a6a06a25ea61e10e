"""Whoever waits for kernels can see that they are being compiled."""

from __future__ import annotations

from typing import Any

import pytest
from numba import njit
from numba.core import event

from resel.networks import is_compiling
from resel.networks.ops.cpu import compilation


class Looking(event.Listener):  # type: ignore[misc]
    """Looks whenever a compilation has begun."""

    def __init__(self) -> None:
        self.seen: list[bool] = []

    def on_start(self, event: Any) -> None:
        self.seen.append(is_compiling())

    def on_end(self, event: Any) -> None:
        pass


def test_compilation_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    looking = Looking()
    with event.install_listener("numba:compile", looking):
        njit(lambda x: x + 1)(1)
    assert looking.seen == [True]
    assert is_compiling()  # the next one may follow
    monkeypatch.setattr(compilation, "_BETWEEN", 0.0)
    assert not is_compiling()
