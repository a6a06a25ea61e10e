"""What several tests of the experiments need."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def no_costs_yet(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder in which no update was measured, not even by the test before."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("RESEL_CACHE", str(folder))
    return folder
