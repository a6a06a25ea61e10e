"""Agents that are given a vector of environments."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import NormalizeObservation

from resel import Agent, AutoresetHelper, RESeL
from resel.agent import configure
from resel.cli import main
from resel.errors import ConfigError, UnsupportedSpaceError
from resel.tasks import make_vector

BOX = "toy/Box-v0"
MODES = list(AutoresetMode)


@pytest.fixture
def settings(tiny: dict[str, Any]) -> dict[str, Any]:
    return {**tiny, "preset": "paper"}


def vector(mode: Any = AutoresetMode.DISABLED, count: int = 3, **world: Any) -> Any:
    kwargs = {"autoreset_mode": mode}
    return gymnasium.make_vec(BOX, count, "sync", vector_kwargs=kwargs, **world)


def same_weights(a: Agent, b: Agent) -> bool:
    one, other = a.learner.weights(), b.learner.weights()
    return all(torch.equal(one[name], other[name]) for name in one)


def test_the_same_numbers_as_with_single_environments(settings: dict[str, Any]) -> None:
    settings |= {"eval_every": 20}
    apart = RESeL(BOX, **settings, num_envs=3).learn(60)
    together = RESeL(vector(), **settings).learn(60)
    assert together.config.training.num_envs == 3
    assert same_weights(apart, together)
    assert apart.evaluations == together.evaluations and len(apart.evaluations) > 3
    assert apart.evaluate(3) == together.evaluate(3)


@pytest.mark.parametrize("mode", MODES)
def test_learning_acting_and_saving(mode: Any, settings: dict[str, Any], tmp_path: Path) -> None:
    envs = vector(mode)
    agent = RESeL(envs, **settings)
    seen: list[int] = []
    agent.learn(45, callback=lambda p: seen.append(p.step))
    assert seen == list(range(3, 46, 3)) and agent.learner.updates > 0
    play = AutoresetHelper(envs)
    actions, _ = agent.predict(play.reset(seed=1), None, play.starts)
    assert actions.shape == (3, 2)
    agent.save(tmp_path / "agent")
    loaded = RESeL.load(tmp_path / "agent", env=vector(mode, count=2))
    assert same_weights(agent, loaded) and loaded.config.training.num_envs == 2
    loaded.learn(4)
    assert f"3 of {BOX}" in repr(agent)
    agent.close()
    assert envs.closed


def steady(toy: Any, mode: Any, *lengths: int) -> Any:
    """Worlds that no seed changes, and which note what is seen before every step."""

    class Steady(toy):  # type: ignore[misc]
        def reset(self, **how: Any) -> Any:
            _, info = super().reset(**how)
            self.value, self.seen = 0.0, getattr(self, "seen", [])
            self.last = self._observation(0.0)
            return self.last, info

        def step(self, action: Any) -> Any:
            self.seen.append(self.last)
            self.last, *rest = super().step(action)
            return self.last, *rest

    makes = [lambda length=length: Steady(length, spread=0) for length in lengths]
    return SyncVectorEnv(makes, autoreset_mode=mode)


def other(method: str, tiny: dict[str, Any]) -> dict[str, Any]:
    """Settings with which it learns at once."""
    names = ("log_every", "device", "checkpoint_minutes", "eval_every", "buffer_steps")
    own = {name: tiny[name] for name in names} | {"preset": "small", "size": "tiny"}
    return own | (
        {"warmup_steps": 30} if method == "td7" else {"rollout_steps": 8, "minibatches": 1}
    )


def stored(agent: Agent) -> list[Any]:
    buffer = agent._trainer.buffer
    return [buffer.episode(i) for i in range(len(list(buffer)))]


@pytest.mark.parametrize("method", ["ppo-gru", "td7", "rl2"])
def test_other_methods(method: str, tiny: dict[str, Any], toy: Any) -> None:
    """Where no seed matters and all episodes end together, nor does the mode."""
    alone = [Agent(steady(toy, mode, 4, 4, 4), method, **other(method, tiny)) for mode in MODES]
    agents = {mode: agent.learn(72) for mode, agent in zip(MODES, alone, strict=True)}
    first = agents.pop(AutoresetMode.DISABLED)
    assert first.learner.updates > 0 and len(stored(first)) == 18
    for agent in agents.values():
        assert agent.learner.updates == first.learner.updates and same_weights(agent, first)
        for one, two in zip(stored(agent), stored(first), strict=True):
            for name in ("observations", "actions", "rewards"):
                np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
            assert one.terminated and two.terminated


@pytest.mark.parametrize("mode", MODES)
def test_scales_are_of_what_was_seen(mode: Any, tiny: dict[str, Any], toy: Any) -> None:
    envs = steady(toy, mode, 3, 4, 6)
    learner = Agent(envs, "ppo-gru", **other("ppo-gru", tiny)).learn(120).learner
    seen = np.concatenate([env.seen for env in envs.envs])
    assert (len(seen) < 120) == (mode is AutoresetMode.NEXT_STEP)  # rows that let a step pass
    assert learner.normalizer.count == learner.reward_scale.count == len(seen)
    np.testing.assert_allclose(learner.normalizer.mean, seen.mean(0), atol=1e-5)
    np.testing.assert_allclose(learner.normalizer.deviation, seen.std(0), atol=1e-5)


@pytest.mark.parametrize("mode", [AutoresetMode.DISABLED, AutoresetMode.NEXT_STEP])
def test_a_run_goes_on(mode: Any, settings: dict[str, Any], tmp_path: Path) -> None:
    stop = [lambda p: p.agent._trainer.request_stop() if p.step == 42 else None]
    RESeL(vector(mode), **settings).learn(60, run_dir=tmp_path / "part", callback=stop)
    again = RESeL(vector(mode), **settings)
    if mode is AutoresetMode.DISABLED:
        again.learn(60, run_dir=tmp_path / "part", resume="auto")
        assert same_weights(RESeL(vector(mode), **settings).learn(60), again)
        return
    with pytest.warns(UserWarning, match="begins its episodes by itself cannot repeat"):
        again.learn(60, run_dir=tmp_path / "part", resume="auto")
    assert again.num_timesteps == 60


def test_episodes_can_be_cut(settings: dict[str, Any]) -> None:
    agent = RESeL(vector(), **settings, max_episode_steps=3).learn(30)
    assert [piece.length for piece in agent._trainer.buffer] == [3] * 9
    with pytest.raises(ConfigError, match="max_episode_steps=3: the vector begins episodes by"):
        RESeL(vector(AutoresetMode.SAME_STEP), **settings, max_episode_steps=3)


@pytest.mark.parametrize("wrapped", [True, False])
def test_nothing_to_evaluate_in(wrapped: bool, settings: dict[str, Any], toy: Any) -> None:
    """A class alone has no spec; with a wrapper around all rows, one alone would see otherwise."""
    envs = (
        NormalizeObservation(vector(AutoresetMode.NEXT_STEP))
        if wrapped
        else SyncVectorEnv([toy, toy])
    )
    agent = RESeL(envs, **{**settings, "eval_every": 10})
    with pytest.warns(UserWarning, match=r"made alone: pass one .* eval_env"):
        agent.learn(6)
    assert agent.evaluations == []
    with pytest.raises(ConfigError, match=r"learn\(..., eval_env=...\)"):
        agent.evaluate(1)
    agent.learn(6, eval_env=toy)
    assert agent.evaluate(1) and agent.evaluations
    with pytest.raises(ConfigError, match="is several environments in one"):
        agent.learn(6, eval_env=vector())


def test_evaluations_are_made_in_one_like_the_others(settings: dict[str, Any]) -> None:
    made = {
        "as registered": vector(),
        "with arguments": vector(length=7, spread=0),
        "with a limit": vector(max_episode_steps=2),
    }
    lengths = {}
    for name, envs in made.items():
        agent = RESeL(envs, **settings)
        result = agent._trainer.evaluate(2)
        assert result is not None
        lengths[name] = result.lengths
    assert lengths["with arguments"] == [7, 7] and lengths["with a limit"] == [2, 2]
    assert all(4 <= length <= 7 for length in lengths["as registered"])
    unlike = SyncVectorEnv([lambda n=n: gymnasium.make(BOX, length=n) for n in (3, 4)])
    assert RESeL(unlike, **settings)._trainer.evaluate(1) is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_envs": 2}, "num_envs=2, but the vector given as env has 3 environments"),
        ({"num_envs": 1}, "num_envs=1, but the vector"),
        ({"env_workers": True}, "env_workers=True is for environments that are made here"),
        ({"env_restarts": 2}, "env_restarts=2 is for environments that are made here"),
        ({"env_vector": True}, "env_vector=True is for environments that are made here"),
    ],
)
def test_settings_that_contradict(
    wrong: dict[str, Any], message: str, settings: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=message):
        RESeL(vector(), **settings, **wrong)


def test_a_config_for_another_number(tiny: dict[str, Any]) -> None:
    config = configure(BOX, **tiny, preset="paper")
    assert RESeL(vector(), config=config).config.training.num_envs == 3
    with pytest.raises(ConfigError, match="num_envs=4, but the vector"):
        RESeL(vector(), config=config.replace(num_envs=4))


def test_what_the_preset_auto_sees() -> None:
    asked = {"device": "cpu", "size": "tiny", "warmup_steps": 70}
    agent = RESeL(gymnasium.make_vec("Pendulum-v1", 2, "sync"), **asked)
    chosen = {choice.name: choice.value for choice in agent.choices}
    assert chosen["batch_steps"] == 400 and agent._env.horizon == 200
    assert "warmup_steps" not in chosen, "it was asked for"


def test_a_method_that_asks_for_tasks(toy: Any) -> None:
    envs = SyncVectorEnv([lambda: toy(tells=True)] * 2)
    with pytest.raises(ConfigError, match="cannot be asked for a task"):
        Agent(envs, "pearl", preset="small", size="tiny", device="cpu")


def test_spaces_of_another_agent(settings: dict[str, Any], tmp_path: Path) -> None:
    RESeL(vector(), **settings).save(tmp_path / "agent")
    with pytest.raises(UnsupportedSpaceError):
        RESeL.load(tmp_path / "agent", env=gymnasium.make_vec("Pendulum-v1", 2, "sync"))


# Vectorised versions of tasks


def test_the_command_says_how_environments_are_stepped(
    tiny_flags: list[str], tmp_path: Path, capsys: Any
) -> None:
    words = [*tiny_flags, "--steps", "40", "--run-dir", str(tmp_path / "run")]
    assert main(["train", "CartPole-v1", *words, "--num-envs", "4", "--env-vector"]) == 0
    assert "4, in the task's vectorised version" in capsys.readouterr().out


def test_the_vectorised_version_of_a_task(settings: dict[str, Any]) -> None:
    agent = RESeL("CartPole-v1", **settings, num_envs=4, env_vector=True).learn(120)
    assert type(agent._env.vector.envs).__name__ == "CartPoleVectorEnv"  # type: ignore[attr-defined]
    for trajectory in agent._trainer.buffer:
        assert trajectory.terminated and 8 <= trajectory.length < 120
    assert agent.evaluate(2)[0] >= 8


@pytest.mark.parametrize(
    ("task", "more", "message"),
    [
        (BOX, {}, "toy/Box-v0' has no vectorised version"),
        ("Pendulum-V-v0", {}, "has no vectorised version"),
        ("CartPole-v1", {"env_workers": True}, "two ways to step many environments"),
        ("CartPole-v1", {"env_restarts": 1}, "env_restarts=1: the environments of a vector"),
        ("CartPole-v1", {"env_kwargs": {"wind": 1}}, "could not be made|no argument 'wind'"),
    ],
)
def test_no_vectorised_version(task: str, more: Any, message: str, settings: Any) -> None:
    with pytest.raises(ConfigError, match=message):
        RESeL(task, **settings, num_envs=2, env_vector=True, **more)


def test_a_vectorised_version_is_a_task_s(settings: dict[str, Any], toy: Any) -> None:
    for env in (toy, toy()):
        with pytest.raises(ConfigError, match="env_vector=True"):
            RESeL(env, **settings, env_vector=True)


def test_the_vectorised_version_stays_with_its_task(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    agent = RESeL("CartPole-v1", **settings, num_envs=2, env_vector=True)
    agent.save(tmp_path / "agent")
    assert RESeL.load(tmp_path / "agent").config.training.env_vector
    make = partial(gymnasium.make, "CartPole-v1")
    for env in (make, make(), gymnasium.make_vec("CartPole-v1", 2, "sync"), "CartPole-v0"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of the older version
            loaded = RESeL.load(tmp_path / "agent", env=env)
        assert not loaded.config.training.env_vector
        assert loaded.learn(4).num_timesteps == 4


def test_a_vector_that_cannot_be_used_is_closed(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Any] = []

    def make(*given: Any, **how: Any) -> Any:
        envs: Any = make_vector(*given, **how)
        envs.close = lambda: closed.append(envs)
        return envs

    monkeypatch.setattr("resel.training.env_factory.make_vector", make)
    how = {"num_envs": 2, "env_vector": True, "critic_observations": lambda env: [1.0]}
    with pytest.raises(ConfigError, match="is a function of the environment"):
        RESeL("CartPole-v1", **settings, **how)
    assert len(closed) == 1


@pytest.mark.parametrize("mode", MODES)
def test_what_the_critic_alone_reads(mode: Any, settings: dict[str, Any], toy: Any) -> None:
    class Clock(toy):  # type: ignore[misc]
        def reset(self, **how: Any) -> Any:
            return super().reset(**how)[0], {"clock": 0}

        def step(self, action: Any) -> Any:
            *result, _ = super().step(action)
            return *result, {"clock": self.time}

    envs = SyncVectorEnv([lambda i=i: Clock(length=3 + i) for i in range(3)], autoreset_mode=mode)
    agent = RESeL(envs, **settings, critic_observations="clock").learn(60)
    buffer = agent._trainer.buffer
    episodes = [buffer.episode(i) for i in range(len(list(buffer)))]
    assert len(episodes) > 8 and agent.learner.updates
    for episode in episodes:
        assert episode.extras["critic"][:, 0].tolist() == list(range(len(episode) + 1))
    with pytest.raises(ConfigError, match="is a function of the environment"):
        RESeL(SyncVectorEnv([toy]), **settings, critic_observations=lambda env: [1.0])
