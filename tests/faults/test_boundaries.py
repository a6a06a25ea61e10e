"""Stopped and resumed anywhere, on the simulators of the paper, a run stays the same run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from resel.config import Config
from resel.runs import Run

STEPS = 150
BOUNDARIES = (1, 29, 30, 31, 60, 61, 77, 90, 113, 149)  # episodes end every 30 steps


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ["gru", "mamba"])
@pytest.mark.parametrize("task", ["AntBLT-P-v0", "Ant-v2"])
def test_ten_boundaries(
    task: str, encoder: str, tiny: dict[str, Any], everything: Any, tmp_path: Path, tally: Any
) -> None:
    settings = {"encoder": encoder, "max_episode_steps": 30, "log_every": 10**6, "steps": 10**6}
    config = Config.build(task, tiny, settings)
    whole = Run(config, tmp_path / "whole")
    whole.trainer.train(STEPS)
    expected = everything(whole.trainer)
    whole.close()
    for stop in BOUNDARIES:
        first = Run(config, tmp_path / str(stop))
        first.trainer.train(stop)
        first._write_checkpoint()
        first.close()
        again = Run(config, tmp_path / str(stop), "auto")
        assert again.resumed_at == stop
        again.trainer.train(STEPS - stop)
        found = everything(again.trainer)
        again.close()
        assert [name for name in expected if found[name] != expected[name]] == []
    tally(f"stop and resume in a new environment, same bits: {task}", len(BOUNDARIES))
