"""What is said of a run before its first step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import pytest

from resel.config import Config
from resel.errors import ConfigError
from resel.runs import Run


def notes(config: Config, path: Path) -> list[str]:
    run = Run(config, path)
    run.close()
    return run.notes


@pytest.fixture
def config(tiny: dict[str, Any]) -> Config:
    return Config.build("toy/Box-v0", tiny, {"steps": 500, "warmup_steps": 120, "batch_steps": 150})


@pytest.mark.parametrize("steps", [5, 120])
def test_a_run_that_would_learn_nothing_is_refused(
    config: Config, tmp_path: Path, steps: int
) -> None:
    with pytest.raises(ConfigError, match=r"before step 120 \(warmup_steps\).* --warmup-steps"):
        Run(config.replace(steps=steps), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    Run(config.replace(steps=121), tmp_path / "run").close()
    Run(config.replace(steps=5), tmp_path / "run", "auto").close()  # one that is there goes on


def test_so_is_one_that_learns_later(tmp_path: Path) -> None:
    config = Config.build("toy/Box-v0", {"method": "sac", "learn_after": 900, "head_width": 8})
    with pytest.raises(ConfigError, match=r"before step 900 \(learn_after\)"):
        Run(config.replace(steps=800, warmup_steps=10), tmp_path / "run")
    seldom = config.replace(learn_after=0, updates_per_step=0.001, steps=800, warmup_steps=10)
    with pytest.raises(ConfigError, match="would learn nothing"):
        Run(seldom, tmp_path / "run")


def test_episodes_that_fit_need_no_words(config: Config, tmp_path: Path) -> None:
    assert notes(config, tmp_path / "run") == []


def test_long_episodes_are_explained(config: Config, tmp_path: Path) -> None:
    (begins,) = notes(config.replace(warmup_steps=50), tmp_path / "a")
    assert "An episode may last 100 steps, longer than the warm-up of 50" in begins
    (slow,) = notes(config.replace(batch_steps=40), tmp_path / "b")
    assert "longer than a batch of 40" in slow and "2.5 times" in slow
    assert "--context-length 64" in slow
    assert notes(config.replace(batch_steps=40, context_length=10), tmp_path / "c") == []


def test_episodes_that_may_take_the_whole_run(config: Config, tmp_path: Path, toy: Any) -> None:
    (told,) = notes(config.replace(steps=100, warmup_steps=90), tmp_path / "a")
    assert "and the run has 100." in told and "--max-episode-steps" in told
    gymnasium.register("toy/Endless-v0", toy)
    # Whose end is not declared may all the same have one.
    assert notes(config.replace(task="toy/Endless-v0", buffer_steps=10**5), tmp_path / "b") == []
    assert notes(config.replace(task="toy/Endless-v0", max_episode_steps=60), tmp_path / "c") == []
