"""EnvPool's environments, alone and in pools."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

from resel import RESeL
from resel.cli import main
from resel.errors import ConfigError, MissingDependencyError, UnknownTaskError
from resel.tasks import make_env, make_vector

TASK = "envpool:Pendulum-v1"


@pytest.fixture
def envpool() -> Any:
    return pytest.importorskip("envpool")


@pytest.fixture
def settings(tiny: dict[str, Any], envpool: Any) -> dict[str, Any]:
    return {**tiny, "preset": "paper", "max_episode_steps": 10}


def test_an_environment_alone(envpool: Any, repeats: Any, play: Any) -> None:
    repeats(lambda: make_env(TASK, max_episode_steps=12))
    episode = play(make_env(TASK, max_episode_steps=12), seed=5)
    assert len(episode.rewards) == 12 and episode.truncated and not episode.terminated
    ours = gymnasium.make("Pendulum-v1").unwrapped
    ours.reset()
    ours.state = np.array(  # type: ignore[attr-defined]
        [np.arctan2(episode.observations[0][1], episode.observations[0][0]),
         episode.observations[0][2]]
    )  # fmt: skip
    for action, seen, reward in zip(
        episode.actions, episode.observations[1:], episode.rewards, strict=True
    ):
        observation, paid, *_ = ours.step(action)
        np.testing.assert_allclose(observation, seen, atol=1e-4)
        assert paid == pytest.approx(reward, abs=1e-4)


def test_a_task_by_its_name(settings: dict[str, Any]) -> None:
    agents = [RESeL(TASK, **settings, num_envs=3).learn(60) for _ in range(2)]
    assert type(agents[0]._env.vector.envs).__name__ == "Pool"  # type: ignore[attr-defined]
    pieces = list(agents[0]._trainer.buffer)
    # All rows end together: the step that they let pass takes none of the time.
    assert [piece.length for piece in pieces] == [10] * 6
    assert not any(piece.terminated for piece in pieces)
    starts = [agents[0]._trainer.buffer.episode(i).observations[0] for i in range(6)]
    assert len({start.tobytes() for start in starts}) == 6
    one, other = (agent.learner.weights() for agent in agents)
    assert all(bool((one[name] == other[name]).all()) for name in one)
    assert agents[0].evaluate(2) == agents[1].evaluate(2)


@pytest.mark.filterwarnings("ignore:.*precision lowered")  # by EnvPool's own spaces
def test_a_pool_that_is_given(settings: dict[str, Any], envpool: Any) -> None:
    pool = envpool.make_gymnasium("Pendulum-v1", num_envs=2, seed=3, max_episode_steps=7)
    del settings["max_episode_steps"]
    agent = RESeL(pool, **settings).learn(42)
    assert agent.config.training.num_envs == 2 and agent._env.horizon == 7
    assert [piece.length for piece in agent._trainer.buffer] == [7] * 6
    result = agent._trainer.evaluate(2)
    assert result is not None and result.lengths == [7, 7]
    with pytest.raises(ConfigError, match="is several environments in one"):
        agent.learn(2, eval_env=pool)
    with pytest.raises(ConfigError, match="leave batch_size out"):
        RESeL(envpool.make_gymnasium("Pendulum-v1", num_envs=4, batch_size=2), **settings)


def test_episodes_that_end_by_themselves(settings: dict[str, Any]) -> None:
    settings["max_episode_steps"] = 100
    agent = RESeL("envpool:CartPole-v1", **settings, num_envs=3)
    agent.learn(150)
    lengths = [piece.length for piece in agent._trainer.buffer]
    assert len(set(lengths)) > 2 and all(piece.terminated for piece in agent._trainer.buffer)
    buffer = agent._trainer.buffer
    for i in range(len(lengths)):
        seen = buffer.episode(i).observations
        assert np.abs(seen[0]).max() <= 0.05  # a first one
        assert abs(seen[-1][2]) > 0.2 or abs(seen[-1][0]) > 2.4  # the one it fell with
        assert np.abs(np.diff(seen[:, 0])).max() < 0.1  # none of another episode between


@pytest.mark.filterwarnings("default:.*not exactly")  # the command tells of it
def test_the_command(
    settings: dict[str, Any], tiny_flags: list[str], tmp_path: Path, capsys: Any
) -> None:
    run = str(tmp_path / "run")
    words = ["--preset", "paper", "--max-episode-steps", "10", "--num-envs", "2", "--threads", "1"]
    assert main(["train", TASK, *tiny_flags, *words, "--steps", "40", "--run-dir", run]) == 0
    assert main(["eval", run, "--episodes", "2", "--json"]) == 0
    assert '"length_mean": 10.0' in capsys.readouterr().out
    assert main(["resume", run, "--steps", "60"]) == 0
    assert "a vector that begins its episodes by itself" in capsys.readouterr().err


def test_arguments_of_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    class Stand:  # in for a pool
        observation_space = action_space = gymnasium.spaces.Box(-1, 1, (1,))
        spec = SimpleNamespace(config=SimpleNamespace(max_episode_steps=9))

        def __init__(self, name: str, **given: Any) -> None:
            asked.append(given)

    package = SimpleNamespace(list_all_envs=lambda: ["Pendulum-v1"], make_gymnasium=Stand)
    monkeypatch.setitem(sys.modules, "envpool", package)
    two = {"num_threads": 2}
    make_vector(TASK, 3, env_kwargs=two)
    make_env(TASK, env_kwargs=two)  # one environment has one thread
    assert [(one["num_envs"], one["num_threads"]) for one in asked] == [(3, 2), (1, 1)]
    for name, words in (
        ("num_envs", "is a setting: num_envs="),
        ("batch_size", "step together here: leave it out"),
        ("seed", "a seed of its own, drawn from the run's: leave it out"),
    ):
        for make in (make_env, lambda task, **more: make_vector(task, 3, **more)):
            with pytest.raises(ConfigError, match=f"env_kwargs {name}=2 of .*{words}"):
                make(TASK, env_kwargs={name: 2})  # type: ignore[operator]


def test_what_there_is_not(settings: dict[str, Any], monkeypatch: Any) -> None:
    with pytest.raises(UnknownTaskError, match="Did you mean envpool:Pendulum-v1"):
        make_env("envpool:Pendulum-v9")
    with pytest.raises(ConfigError, match=r"could not be made with wind=3: .*'wind'"):
        make_env(TASK, env_kwargs={"wind": 3})
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'resel\[envpool\]'"):
        make_env(TASK)
