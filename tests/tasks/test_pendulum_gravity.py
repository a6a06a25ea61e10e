"""The pendulum under a hidden gravity: it acts, it stays, and nothing shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from presets import task_settings

from resel import RESeL
from resel.errors import ConfigError
from resel.tasks import RandomizeField, make_env

ID = "Pendulum-gravity-v0"
PUSH = np.array([1.0], np.float32)


def gravity(env: Any) -> float:
    """What the simulator computes with."""
    return float(env.unwrapped.g)


def test_it_is_constant_in_an_episode_and_told_beside_the_observation() -> None:
    env = make_env(ID)
    for seed in range(3):
        observation, info = env.reset(seed=seed)
        assert observation.shape == (3,)
        values = {gravity(env)}
        for _ in range(200):
            observation, *_, truncated, later = env.step(PUSH)
            values.add(gravity(env))
            assert later["task"] == info["task"] and later["hidden"] == info["hidden"]
        assert truncated and values == {float(info["gravity"][0])}
        low, high = 10 / 1.5, 15
        assert info["hidden"] == pytest.approx((gravity(env) - low) / (high - low), abs=1e-6)


def test_it_differs_between_episodes_and_the_rest_is_held_out() -> None:
    values: dict[str, dict[int, float]] = {}
    for split, evaluation in (("train", False), ("test", True)):
        env = make_env(ID, evaluation=evaluation)
        infos = [env.reset(seed=seed)[1] for seed in range(60)]
        values[split] = {info["task"]: float(info["gravity"][0]) for info in infos}
    train, test = values["train"], values["test"]
    assert sorted(train) == list(range(40)) and sorted(test) == list(range(40, 60))
    everything = [*train.values(), *test.values()]
    assert len(set(everything)) == 60 and not set(train.values()) & set(test.values())
    assert min(everything) > 10 / 1.5 and max(everything) < 15 and np.ptp(everything) > 6


def test_a_task_can_be_asked_for() -> None:
    env = make_env(ID)
    asked = [env.reset(options={"task": task})[1] for task in (3, 59, 3)]
    assert [info["task"] for info in asked] == [3, 59, 3]
    assert asked[0]["gravity"] == asked[2]["gravity"] != asked[1]["gravity"]
    with pytest.raises(ConfigError, match=r"no task 60.*0 to 59"):
        env.reset(options={"task": 60})


def test_seeds_alone_decide(repeats: Callable[[Callable[[], Any]], None]) -> None:
    repeats(lambda: make_env(ID))


def test_it_is_the_plain_pendulum_with_that_gravity() -> None:
    env = make_env(ID)
    _, info = env.reset(seed=4)
    plain = gymnasium.make("Pendulum-v1", g=float(info["gravity"][0]))
    plain.reset(seed=0)
    bare: Any = plain.unwrapped
    ours: Any = env.unwrapped
    bare.state = ours.state.copy()
    for _ in range(20):
        one, two = env.step(PUSH), plain.step(PUSH)
        np.testing.assert_array_equal(one[0], two[0])
        assert one[1:4] == two[1:4]


def test_the_strongest_one_can_be_overcome() -> None:
    """Torque along the motion brings it up from hanging still, in spite of the limit of speed."""
    env = make_env(ID)
    strongest = int(np.argmax([env.reset(options={"task": k})[1]["hidden"][0] for k in range(60)]))
    env.reset(seed=0, options={"task": strongest})
    pendulum: Any = env.unwrapped
    pendulum.state = np.array([np.pi, 0.1])
    highest = -1.0
    for _ in range(200):
        torque = 2.0 if pendulum.state[1] >= 0 else -2.0
        observation, *_ = env.step(np.array([torque], np.float32))
        highest = max(highest, float(observation[0]))
    assert highest > 0.99  # the cosine of the angle from upright


def test_an_agent_is_told_task_and_gravity() -> None:
    agent = RESeL(
        ID, size="tiny", warmup_steps=10, max_episode_steps=5, batch_steps=10, eval_every=0
    )
    agent.learn(12)
    assert agent._trainer.buffer.column_sizes == {"task": 1, "hidden": 1}
    agent.close()


def test_gravity_of_other_worlds() -> None:
    env = RandomizeField(CartPoleEnv(), "gravity", tasks=3, train_tasks=2)
    pole: Any = env.unwrapped
    for task in range(3):
        _, info = env.reset(options={"task": task})
        assert pole.gravity == info["gravity"][0] == pytest.approx(9.8 * env.scales[task, 0])
    with pytest.raises(ConfigError, match="has no MuJoCo model"):
        RandomizeField(CartPoleEnv(), "length")


def test_settings() -> None:
    settings = task_settings(ID)
    assert (settings["size"], settings["gamma"], settings["steps"]) == ("tiny", 0.96, 20_000)
    assert settings["eval_episodes"] == 20  # each of the held-out tasks once
    car = task_settings("MountainCarContinuous-P-v0")
    assert (car["size"], car["gamma"], car["steps"]) == ("tiny", 0.99, 20_000)
