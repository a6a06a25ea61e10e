"""Exported policies that nobody may change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from resel import RESeL


@pytest.fixture(scope="session")
def agents(tiny: dict[str, Any]) -> dict[str, RESeL]:
    """Agents that have learned a little."""
    box = {**tiny, "encoder": "mamba", "state_size": 4, "normalize_observations": True}
    return {
        "box": RESeL("toy/Box-v0", **{**box, "reward_input": True}).learn(45),
        "discrete": RESeL("toy/Discrete-v0", **tiny).learn(45),
    }


@pytest.fixture(scope="session")
def folders(agents: dict[str, RESeL], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What they were exported to: one row, and any number of rows with noise."""
    root = tmp_path_factory.mktemp("exports")
    agents["box"].export(root / "box")
    agents["discrete"].export(root / "discrete", batch="dynamic", stochastic=True)
    return {name: root / name for name in agents}
