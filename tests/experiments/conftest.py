"""What several tests of the experiments need."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture
def ray_environment() -> Iterator[None]:
    """No settings of Ray before, and none of those our engine makes afterwards."""
    before = {name: os.environ.pop(name) for name in list(os.environ) if _ours(name)}
    yield
    for name in [name for name in os.environ if _ours(name)]:
        del os.environ[name]
    os.environ.update(before)


def _ours(name: str) -> bool:
    return name.startswith("RAY_") and name != "RAY_TMPDIR"
