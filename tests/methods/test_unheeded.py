"""Settings that would change nothing are refused where learning begins."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from resel import Agent
from resel.agent import configure
from resel.config import Config
from resel.errors import ConfigError
from resel.methods import Method, methods
from resel.runs import Run
from resel.training import task_trainer

ON_POLICY = [method for method in methods()[0] if method.learner.on_policy]
on_policy = pytest.mark.parametrize("method", ON_POLICY, ids=[m.name for m in ON_POLICY])


def small(method: str, **settings: float) -> Config:
    more = {"size": "tiny", "eval_every": 0, "device": "cpu", "steps": 40_000, **settings}
    return configure("Pendulum-gravity-v0", method=method, preset="small", **more)


@on_policy
def test_updates_per_step_is_refused_by_who_learns_from_rollouts(
    method: Method, tmp_path: Path
) -> None:
    config = small(method.name, updates_per_step=5)
    told = f"{method.name} learns from whole rollouts, so updates_per_step=5 .*; epochs="
    with pytest.raises(ConfigError, match=told):
        Run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    agent = Agent("Pendulum-gravity-v0", config=config)
    with pytest.raises(ConfigError, match=told):
        agent.learn(10)


@on_policy
def test_older_runs_with_it_go_on(
    method: Method, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small(method.name, updates_per_step=5)
    with monkeypatch.context() as before:
        before.setattr(method.learner, "unheeded", lambda self: None)
        Run(config, tmp_path / "run").close()
    with closing(Run(config, tmp_path / "run", "auto")) as run:
        assert run.trainer.config == config
    with task_trainer(config) as trainer:
        trainer.check_settings()
        trainer.learner.updates = 1  # it has learned before
        trainer.check_settings(anew=True)


@pytest.mark.parametrize("preset", ["paper", "small", "auto"])
@on_policy
def test_presets_leave_it_out(method: Method, preset: str) -> None:
    config = configure("Pendulum-gravity-v0", method=method.name, preset=preset, device="cpu")
    with task_trainer(config) as trainer:
        assert trainer.learner.unheeded() is None


def test_others_heed_it() -> None:
    with task_trainer(small("sac-mlp", updates_per_step=5)) as trainer:
        trainer.check_settings(anew=True)
