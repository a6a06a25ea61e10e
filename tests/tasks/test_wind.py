"""Wind: an unseen drift, the same set of winds for everyone."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from presets import task_settings

from resel.errors import BadInputError, ConfigError
from resel.tasks import make_env
from resel.training import evaluation_seeds


def test_a_player_that_knows_the_wind() -> None:
    env, returns = make_env("Wind-v0"), []
    for task in range(60):
        position, info = env.reset(options={"task": task})
        total, ended = 0.0, False
        while not ended:
            aim = np.clip([0, 1] - position - info["wind"], -0.1, 0.1)
            position, reward, terminated, ended, info = env.step(aim)
            assert not terminated and info["task"] == task
            total += float(reward)
        returns.append(total)
    assert np.mean(returns) == pytest.approx(63.2, abs=0.1)


def test_drift_reward_and_horizon(play: Any) -> None:
    env = make_env("Wind-v0")
    for seed in range(5):
        episode = play(env, seed)
        assert len(episode.rewards) == 75 and episode.truncated and not episode.terminated
        wind, position = episode.info["wind"], np.zeros(2)
        for i, action in enumerate(episode.actions):
            position = position + action + wind
            np.testing.assert_allclose(episode.observations[i + 1], position, atol=1e-5)
            assert episode.rewards[i] == float(np.hypot(*(position - [0, 1])) <= 0.03)
            np.testing.assert_array_equal(episode.infos[i]["wind"], wind)
        with pytest.raises(ResetNeeded, match="no episode running"):
            env.step(np.zeros(2))


def test_the_first_observation_never_tells_the_wind() -> None:
    env = make_env("Wind-v0")
    for task in range(60):
        np.testing.assert_array_equal(env.reset(options={"task": task})[0], [0, 0])


def test_training_and_evaluation_share_no_wind() -> None:
    seen = []
    for evaluation in (False, True):
        env = make_env("Wind-v0", evaluation=evaluation)
        env.reset(seed=0)
        seen.append({env.reset()[1]["task"] for _ in range(600)})
    assert seen == [set(range(40)), set(range(40, 60))]
    winds: Any = env.unwrapped
    np.testing.assert_allclose(winds.winds[0], [-0.03807605, -0.05461056], atol=1e-8)
    assert np.abs(winds.winds).max() <= 0.08


def test_seeds_alone_decide(repeats: Any) -> None:
    repeats(lambda: make_env("Wind-v0"))


def test_bad_input() -> None:
    env = make_env("Wind-v0")
    for task, message in ((60, "no task 60.*0 to 59"), (-1, "no task -1"), (1.5, "whole number")):
        with pytest.raises(ConfigError, match=message):
            env.reset(options={"task": task})
    env.reset(seed=0)
    with pytest.raises(BadInputError, match="outside its space"):
        env.step(np.array([0.2, 0]))
    with pytest.raises(ConfigError, match="split='some' is not known: use train, test or all"):
        gymnasium.make("resel/Wind-v0", split="some")
    with pytest.raises(ConfigError, match="leaves none for split='test'"):
        gymnasium.make("resel/Wind-v0", split="test", train_tasks=60)
    with pytest.raises(ConfigError, match="total=0 tasks"):
        gymnasium.make("resel/Wind-v0", tasks=0)


def test_the_picture_shows_the_path(play: Any) -> None:
    env = make_env("Wind-v0", render_mode="rgb_array")
    env.reset(seed=0)
    before: Any = env.render()
    play(env, 0, 20)
    after: Any = env.render()
    assert before.shape == (300, 300, 3) and (before != after).any()


def test_settings() -> None:
    settings = task_settings("Wind-v0")
    assert settings["reward_input"] and settings["steps"] == 5_000_000
    assert settings["lr_context_encoder"] == 2e-6 and settings["lr_policy"] == 6e-5
    assert settings["lr_critic"] == 2e-4 and settings["batch_steps"] == 1000


def test_an_evaluation_meets_every_held_out_wind_once() -> None:
    env = gymnasium.make("resel/Wind-v0", split="test")
    orders = []
    for seed in (1, 2, 3):
        orders.append([env.reset(seed=s)[1]["task"] for s in evaluation_seeds(seed, 20)])
        assert sorted(orders[-1]) == list(range(40, 60))
    assert len(set(map(tuple, orders))) == 3, "where it begins depends on the seed of the run"
