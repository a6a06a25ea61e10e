"""Evaluations of trials: the return of each of their episodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from terminal import lines

from resel import Agent
from resel.cli import main
from resel.envs import CheckedEnv
from resel.tasks import make_env
from resel.training import evaluate, evaluation_seeds

SMALL: dict[str, Any] = {"preset": "small", "size": "tiny", "device": "cpu", "num_envs": 4}


class Ends(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Pays 1 in the first episode and 2 in the second, which every second trial does not reach."""

    trials = 0

    def reset(self, **options: Any) -> Any:
        self.trials += 1
        return self.env.reset(**options)

    def step(self, action: Any) -> Any:
        observation, _, terminated, truncated, info = self.env.step(action)
        second = info["episode"] == 1
        over = self.trials % 2 == 0 and bool(observation[2])
        return observation, 2.0 if second else 1.0, terminated or over, truncated, info


class Statistics(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Tells something else by the name of an episode, as wrappers of Gymnasium do."""

    def step(self, action: Any) -> Any:
        *outcome, info = self.env.step(action)
        return (*outcome, {**info, "episode": {"r": 1.0}})


def agent_in(wrapper: type[Any]) -> Any:
    agent = Agent(lambda: wrapper(make_env("TwoGoals-v0")), "rl2", **SMALL)
    agent.learn(4)
    return agent


def test_the_return_of_every_episode_of_a_trial() -> None:
    agent = agent_in(Ends)
    env = CheckedEnv(Ends(make_env("TwoGoals-v0")))
    found = evaluate(agent.actor, env, evaluation_seeds(1, 4))
    assert sorted(map(tuple, found.inner)) == [(20.0,), (20.0,), (20.0, 40.0), (20.0, 40.0)]
    assert found.inner_means == {"return_episode_1": 20.0, "return_episode_2": 20.0}
    assert found.return_mean == pytest.approx(sum(found.inner_means.values()))
    agent.close()


def test_what_is_no_number_of_an_episode_is_let_pass() -> None:
    agent = agent_in(Statistics)
    env = CheckedEnv(Statistics(make_env("TwoGoals-v0")))
    found = evaluate(agent.actor, env, evaluation_seeds(1, 2))
    assert found.inner == [] and found.inner_means == {} and np.isfinite(found.return_mean)
    agent.close()


def test_runs_and_the_command_tell_them(tmp_path: Path, capsys: Any) -> None:
    run = tmp_path / "run"
    words = "--method rl2 --preset small --size tiny --num-envs 4 --steps 160 --eval-every 80"
    command = ["train", "TwoGoals-v0", *words.split(), "--rollout-steps", "20", "--device", "cpu"]
    assert main([*command, "--run-dir", str(run)]) == 0
    evaluated = [line for line in lines(run) if line["kind"] == "eval"]
    for line in evaluated:
        both = line["return_episode_1"] + line["return_episode_2"]
        assert both == pytest.approx(line["return_mean"])
    capsys.readouterr()
    assert main(["eval", str(run), "--episodes", "2", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {"return_episode_1", "return_episode_2"} <= answer.keys()
    assert main(["eval", str(run), "--episodes", "2"]) == 0
    told = capsys.readouterr().out.splitlines()
    expected = f"{answer['return_episode_1']:.2f} + {answer['return_episode_2']:.2f}"
    assert told[3] == f"Of the episodes of a trial, in their order: {expected}"
