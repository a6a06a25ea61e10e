"""Runs whose critic is told more: they go on exactly, and weights are taken over as they fit."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import save_checkpoint
from terminal import read, refused

from resel import Agent, RESeL
from resel.cli import main
from resel.config import Config
from resel.errors import ConfigError, DamagedFileError
from resel.runs import ReplayLog, read_bundle, restore_trainer, write_bundle
from resel.training import Trainer, task_envs

Everything = Callable[[Trainer], dict[str, Any]]


@pytest.fixture(autouse=True)
def _terminal(own_folder: None, narrow_terminal: None) -> None:
    pass


@pytest.fixture
def settings(tiny: dict[str, Any]) -> dict[str, Any]:
    own = {"max_episode_steps": 9, "warmup_steps": 20, "normalize_observations": True}
    return {**tiny, **own, "critic_observations": "unseen"}


@pytest.mark.parametrize(
    ("num_envs", "workers"), [(1, False), pytest.param(2, True, marks=pytest.mark.slow)]
)
def test_the_continued_run_is_the_same_run(
    settings: dict[str, Any], everything: Everything, tmp_path: Path, num_envs: int, workers: bool
) -> None:
    wanted = Config.build("Pendulum-V-v0", settings, {"num_envs": num_envs, "buffer_steps": 60})
    whole = Trainer(wanted, *task_envs(wanted))
    whole.train(40)
    whole.train(60)

    there = wanted.replace(env_workers=workers)
    first = Trainer(wanted, *task_envs(there))
    first.train(40)
    bundle = save_checkpoint(first, tmp_path / "checkpoint")
    assert bundle.tensors["collector"]["episode.0.told.critic"].shape == (2,)
    first.close()

    second = Trainer(wanted, *task_envs(wanted))
    second.train(14)  # whatever it did before does not matter
    assert restore_trainer(second, bundle, ReplayLog(tmp_path))
    second.train(60)
    assert everything(second) == everything(whole)
    for piece in second.buffer:  # cos and sin of the angle, at every step
        signal = second.buffer.columns["critic"][piece.begin : piece.begin + piece.length + 1]
        np.testing.assert_allclose(np.square(signal).sum(1), 1, atol=1e-5)
        assert len(np.unique(signal, axis=0)) == len(signal)
    for trainer in (whole, second):
        trainer.close()


def test_an_episode_with_another_signal_is_another_one(
    toy: Any, tiny: dict[str, Any], tmp_path: Path
) -> None:
    def agent(offset: float) -> RESeL:
        def told(env: Any) -> Any:
            return env.unwrapped.time + offset

        return RESeL(toy, **tiny, preset="small", critic_observations=told)

    one = agent(0.0).learn(40)
    bundle = save_checkpoint(one._trainer, tmp_path / "a")
    assert restore_trainer(agent(0.0)._trainer, bundle, ReplayLog(tmp_path))
    assert not restore_trainer(agent(1.0)._trainer, bundle, ReplayLog(tmp_path))


def _clock(env: Any) -> Any:
    return [env.unwrapped.time, 2.0]


def test_a_run_with_a_function_goes_on_where_the_function_is(
    tiny: dict[str, Any], capsys: Any
) -> None:
    new = partial(RESeL, "toy/Box-v0", **tiny, preset="small", critic_observations=_clock)
    new().learn(40, run_dir="parts")
    again = new().learn(30, run_dir="parts", resume="auto")
    assert again.num_timesteps == 40  # it is finished
    longer = new().learn(70, run_dir="parts", resume="auto")
    whole = new().learn(70, run_dir="whole")
    for name, tensor in whole.learner.weights().items():
        assert torch.equal(tensor, longer.learner.weights()[name])
    capsys.readouterr()
    words = refused(capsys, "resume", "parts", "--steps", "90")
    assert "critic_observations=function" in words and "only the program knows" in words
    assert main(["eval", "parts", "--episodes", "1"]) == 0  # acting needs no function
    loaded = Agent.load("parts")
    with pytest.raises(ConfigError, match="give the function again, as critic_observations="):
        loaded.learn(10)
    Agent.load("parts", critic_observations=_clock).learn(10)


def test_the_command_takes_what_a_task_names(tiny_flags: list[str], capsys: Any) -> None:
    small = ["--steps", "60", "--max-episode-steps", "9", "--run-dir", "run"]
    words = ["train", "Pendulum-V-v0", *tiny_flags, *small, "--critic-observations", "task"]
    assert main(words) == 0
    assert read(Path("run/config.json"))["algorithm"]["critic_observations"] == "unseen"
    assert main([*words, "--resume", "auto"]) == 0
    assert main(["resume", "run", "--steps", "70"]) == 0
    assert "70 steps" in capsys.readouterr().out
    assert main(["eval", "run", "--episodes", "1"]) == 0
    where = ["train", "Pendulum-v1", *tiny_flags, "--run-dir", "other"]
    assert "only tasks of ours name" in refused(capsys, *where, "--critic-observations", "task")
    assert not os.path.exists("other")
    assert "(there is: nothing)" in refused(capsys, *where, "--critic-observations", "hidden")
    assert not os.path.exists("other")
    words = ["train", "Pendulum-V-v0", "--method", "sac", "--critic-observations", "task"]
    assert "sac has no setting 'critic_observations'" in refused(capsys, *words)


@pytest.mark.parametrize("method", ["resel", "sac-gru"])
def test_weights_are_taken_over_with_a_signal_and_without(
    tiny: dict[str, Any], method: str
) -> None:
    here = Agent("Pendulum-V-v0", method=method, preset="small").config.flat()
    own = {name: value for name, value in tiny.items() if name in here}
    own |= {"method": method, "max_episode_steps": 9, "preset": "small"}
    plain = Agent("Pendulum-V-v0", **own).learn(45)
    plain.save("plain")
    told = Agent("Pendulum-V-v0", **own, critic_observations="task", init_from="plain")
    assert told.warm_start is not None
    new = [name for name in told.warm_start.fresh if not name.startswith("target_")]
    parts = {name.rpartition(".")[0].partition(".")[2] for name in new if "normalizer" not in name}
    assert parts <= {"privileged", "shortcuts.0.linear", "shortcuts.1.linear"}
    told.learn(45).save("told")
    back = Agent("Pendulum-V-v0", **own, init_from="told", seed=5)
    assert back.warm_start is not None
    assert all(name.startswith(("critic.", "target_critic.")) for name in back.warm_start.fresh)
    for one, other in ((plain, Agent.load("plain")), (told, back)):
        policy = other.learner.policy.state_dict()
        for name, tensor in one.learner.policy.state_dict().items():
            assert torch.equal(tensor, policy[name])


@pytest.mark.parametrize("count", [0, -1, 10**9, "2", True])
def test_an_altered_agent_is_refused(settings: dict[str, Any], count: Any) -> None:
    RESeL("Pendulum-V-v0", **settings).save("agent")
    bundle = read_bundle("agent", "agent")
    assert bundle.documents["agent"]["privileged"] == 2
    document = {**bundle.documents["agent"], "privileged": count}
    write_bundle("agent", "agent", bundle.tensors, {"agent": document})
    with pytest.raises(DamagedFileError, match=r"its critic reads .* numbers of its own"):
        RESeL.load("agent")
