"""What is said of a run before its first step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import pytest
from method_cases import TellTasks, every_method, small_config

from resel import Agent
from resel.config import Config
from resel.errors import ConfigError
from resel.methods import Method
from resel.runs import Run
from resel.runs.outlook import notes as notes_of


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


@every_method
def test_rollouts_need_no_whole_episodes(method: Method) -> None:
    """What is said of a run that no episode ends in is true of what it makes updates of."""
    small = {"rollout_steps": 8, "phase_steps": 10, "vae_after": 0, "learn_after": 0}
    config = small_config(method, steps=100, warmup_steps=0, eval_every=0, checkpoint_every=0)
    config = config.replace(**{n: v for n, v in small.items() if n in config.flat()})
    world = {"length": 100, "spread": 0}
    agent = Agent(lambda: TellTasks(gymnasium.make("toy/Box-v0", **world)), config=config)
    said = " ".join(notes_of(config.training, agent.learner, agent._trainer.env))
    agent.learn(99)
    agent.close()
    assert ("nothing will be learned" in said) == (agent.learner.updates == 0)
    if agent.learner.updates:
        assert agent.learner.on_policy
        due, further = (getattr(agent.learner.schedule, name) for name in ("updates", "further"))
        assert (f"only {due} of the {due} + {further} updates" in said) == (further > 0)
        assert further or not said
        assert agent.learner.updates % due == 0
