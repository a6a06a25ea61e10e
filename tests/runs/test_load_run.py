"""A run opened to be looked at."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from resel.config import Config
from resel.errors import DamagedFileError, RunDirectoryError
from resel.runs import Run, open_trainer
from resel.training import Trainer


@pytest.fixture
def run(tiny: dict[str, Any], tmp_path: Path) -> Path:
    """A run with checkpoints at steps 40 and 60."""
    path = tmp_path / "run"
    made = Run(Config.build("toy/Box-v0", tiny, {"steps": 60, "checkpoint_every": 20}), path)
    try:
        made.train()
    finally:
        made.close()
    return path


def test_it_is_where_the_run_stood(
    run: Path, everything: Callable[[Trainer], dict[str, Any]]
) -> None:
    looked_at = open_trainer(run)
    config = Config.from_json(looked_at.config.to_json())
    resumed = Run(config, run, "auto")
    try:
        assert everything(looked_at) == everything(resumed.trainer)
    finally:
        looked_at.close()
        resumed.close()


def test_a_damaged_checkpoint_gives_way_to_the_one_before(run: Path) -> None:
    newest, before = sorted((run / "checkpoints").iterdir(), reverse=True)[:2]
    (newest / "weights.safetensors").write_bytes(b"")
    with pytest.warns(UserWarning, match="Trying the one before"):
        trainer = open_trainer(run)
    assert trainer.step == 40
    trainer.close()
    (before / "weights.safetensors").write_bytes(b"")
    with (
        pytest.warns(UserWarning, match="Trying the one before"),
        pytest.raises(DamagedFileError, match="No checkpoint in"),
    ):
        open_trainer(run)
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(RunDirectoryError, match="has no checkpoint yet"):
        open_trainer(run)
