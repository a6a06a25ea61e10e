"""Acting in vector environments: episodes begin where they begin, in every autoreset mode."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from resel import AutoresetHelper, RESeL
from resel.errors import ConfigError

MODES = list(AutoresetMode)


@pytest.fixture(scope="module")
def agent(tiny: dict[str, Any]) -> RESeL:
    """It reads the last reward, so that this, too, has to be the right episode's."""
    return RESeL("toy/Box-v0", **tiny, preset="paper", reward_input=True).learn(45)


class Recorder(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Notes what an environment has really been through, episode by episode."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.episodes: list[list[tuple[Any, Any, float]]] = []

    def reset(self, **how: Any) -> Any:
        self.observation, info = super().reset(**how)
        self.episodes.append([])
        return self.observation, info

    def step(self, action: Any) -> Any:
        result = super().step(action)
        self.episodes[-1].append((self.observation, np.array(action), float(result[1])))
        self.observation = result[0]
        return result


def play(agent: RESeL, envs: Any, steps: int, mode: str | None = None) -> list[int]:
    """The pattern of the documentation; the steps of the finished episodes of all rows."""
    helper = AutoresetHelper(envs, mode)
    observations, state = helper.reset(seed=3), None
    length, ended = np.zeros(envs.num_envs, int), []
    for _ in range(steps):
        actions, state = agent.predict(observations, state, helper.starts, reward=helper.rewards)
        observations, _, terminated, truncated, _ = helper.step(actions)
        length += helper.real
        ended += length[terminated | truncated].tolist()
        length[terminated | truncated] = 0
    return ended


@pytest.mark.parametrize("mode", MODES)
def test_every_episode_is_played_as_if_it_were_alone(agent: RESeL, toy: Any, mode: Any) -> None:
    rows = [Recorder(toy(length=3)) for _ in range(3)]
    envs = SyncVectorEnv([lambda row=row: row for row in rows], autoreset_mode=mode)
    lengths = play(agent, envs, 30)
    finished = [episode for row in rows for episode in row.episodes[:-1]]
    assert len(finished) > 9 and sorted(map(len, finished)) == sorted(lengths)
    for episode in (episode for row in rows for episode in row.episodes):
        state, reward = None, 0.0
        for observation, action, following in episode:
            alone, state = agent.predict(observation, state, reward=reward)
            np.testing.assert_allclose(alone, action, atol=1e-5)
            reward = following


def test_the_naive_pattern_is_wrong_in_the_default_mode(agent: RESeL, toy: Any) -> None:
    """What the helper is for: flags of the same step begin an episode at the end of one."""
    envs = SyncVectorEnv([lambda: toy(length=3, spread=0)])
    helper = AutoresetHelper(envs)
    helper.reset(seed=3)
    starts, ends = [], []
    for _ in range(8):
        _, _, terminated, _, _ = helper.step(np.zeros((1, 2), np.float32))
        starts.append(bool(helper.starts[0]))
        ends.append(bool(terminated[0]))
    assert ends == [False, False, True, False, False, False, True, False]
    assert starts == [False, False, False, True, False, False, False, True]
    helper.reset(seed=3)
    assert helper.starts.all() and helper.real.all()


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
def test_the_last_observation_is_kept(toy: Any, mode: Any) -> None:
    envs = SyncVectorEnv(
        [lambda: toy(length=2, spread=0), lambda: toy(length=3, spread=0)],
        autoreset_mode=mode,
        copy=False,
    )
    helper = AutoresetHelper(envs)
    helper.reset(seed=3)
    for _ in range(2):
        observations, _, terminated, _, infos = helper.step(np.zeros((2, 2), np.float32))
    assert terminated.tolist() == [True, False] and helper.starts.tolist() == [True, False]
    assert infos["final_obs"][0][1] == 2 and observations[:, 1].tolist() == [0, 2]  # the time


def test_environments_in_processes_and_those_that_are_several_themselves() -> None:
    tiny = {"encoder": "gru", "size": "tiny", "eval_every": 0}
    agent = RESeL("CartPole-v1", **tiny, preset="paper")  # type: ignore[arg-type]
    envs = AsyncVectorEnv(
        [lambda: gymnasium.make("CartPole-v1")] * 2, autoreset_mode=AutoresetMode.DISABLED
    )
    try:
        assert all(8 <= steps <= 500 for steps in play(agent, envs, 25))
    finally:
        envs.close()
    envs = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point")
    assert play(agent, envs, 40)


def test_what_it_cannot_use(toy: Any) -> None:
    with pytest.raises(ConfigError, match="must be a vector environment"):
        AutoresetHelper(toy())
    envs = SyncVectorEnv([toy])
    with pytest.raises(ConfigError, match="say that theirs is 'next step': leave it out"):
        AutoresetHelper(envs, "disabled")
    envs.metadata = {}
    with pytest.raises(ConfigError, match="do not say how they reset, so give one of 'next step'"):
        AutoresetHelper(envs)
    with pytest.raises(ConfigError, match="mode='later'"):
        AutoresetHelper(envs, "later")
    assert AutoresetHelper(envs, "next step").mode == "next step"
