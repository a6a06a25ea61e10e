"""Tests that start Ray: what it reads from the environment, and what it leaves there."""

from __future__ import annotations

import gc
import os
import secrets
import warnings
from collections.abc import Iterator

import pytest

_TOKEN = secrets.token_hex(32)
"""Ray keeps the first token of a process, so all tests of one share it."""


@pytest.fixture
def ray_environment() -> Iterator[None]:
    """No settings of Ray before, and none of those our engine makes afterwards."""
    before = {name: os.environ.pop(name) for name in list(os.environ) if _of_ray(name)}
    os.environ["RAY_AUTH_TOKEN"] = _TOKEN
    yield
    for name in [name for name in os.environ if _of_ray(name)]:
        del os.environ[name]
    os.environ.update(before)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray lets go of its processes without waiting for them
        gc.collect()


def _of_ray(name: str) -> bool:
    return name.startswith("RAY_") and name != "RAY_TMPDIR"
