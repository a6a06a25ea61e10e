"""Methods that exist in tests alone: the default one under another name, with a setting more."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from resel.methods import Method, default_method, get_method, register_method
from resel.registry import METHODS


@dataclass(frozen=True)
class EchoSettings(get_method(default_method()).settings):  # type: ignore[misc]
    """The default method's, and one more."""

    echo_strength: float = 0.5
    """How loud the [echo] is, over
    two lines."""


def _paper_only(task: Any, name: str) -> dict[str, Any] | None:
    return {} if name == "paper" else None


@contextmanager
def echo_method(**changes: Any) -> Iterator[Method]:
    """A method of the registry for as long as the context lasts."""
    known: dict[str, Any] = {
        "name": "echo-method",
        "title": "Echo",
        "summary": "learns like the default",
        "source": "nobody et al.",
        "settings": EchoSettings,
        "encoder": "gru",
        "preset": _paper_only,
        "figures": ("fig-nowhere",),
    }
    method = dataclasses.replace(get_method(default_method()), **(known | changes))
    register_method(method)
    try:
        yield method
    finally:
        METHODS.remove(method.name)
