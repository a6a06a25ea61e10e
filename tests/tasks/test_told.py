"""What randomised tasks tell: the number of the task, and what is hidden as a part of its range."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from resel.tasks import RandomizeField, make_env
from resel.tasks.simulators import mujoco_env


def test_the_wind_is_told_within_its_range() -> None:
    env = make_env("Wind-v0")
    for task in range(60):
        _, info = env.reset(options={"task": task})
        hidden = info["hidden"]
        assert info["task"] == task and hidden.shape == (2,) and hidden.dtype == np.float32
        np.testing.assert_allclose(hidden, (info["wind"] + 0.08) / 0.16, atol=1e-6)
        assert (hidden >= 0).all() and (hidden <= 1).all()
        step_info = env.step(np.zeros(2))[4]
        assert step_info["task"] == task
        np.testing.assert_array_equal(step_info["hidden"], hidden)


@pytest.mark.parametrize("id", ["AntDir-v0", "CheetahDir-v0", "HalfCheetahVel-v0"])
def test_the_goal_is_told_within_its_range(id: str) -> None:
    pytest.importorskip("mujoco")
    env = gymnasium.make(f"resel/{id}", episode_steps=3)
    low, high = (0, 3) if id == "HalfCheetahVel-v0" else (-1, 1)
    for task in (0, 1):
        _, info = env.reset(seed=2, options={"task": task})
        infos = [info, *(env.step(np.zeros(env.action_space.shape or ()))[4] for _ in range(5))]
        for told in infos:  # also across the inner reset
            assert told["task"] == task and told["hidden"].dtype == np.float32
            np.testing.assert_allclose(told["hidden"], [(told["goal"] - low) / (high - low)])
    if id != "HalfCheetahVel-v0":
        assert told["hidden"].tolist() == [1.0] and env.reset(options={"task": 0})[1]["hidden"] == 0


def test_gravity_is_told_within_its_range() -> None:
    pytest.importorskip("mujoco")
    env = make_env("Hopper-gravity-v0")
    strongest, weakest = -9.81 * 1.5**3, -9.81 * 1.5**-3
    for task in range(60):
        _, info = env.reset(seed=0, options={"task": task})
        hidden = info["hidden"]
        assert info["task"] == task and hidden.shape == (1,) and hidden.dtype == np.float32
        expected = (info["gravity"][2] - strongest) / (weakest - strongest)
        np.testing.assert_allclose(hidden, [expected], atol=1e-6)
        assert 0 <= hidden[0] <= 1
        step_info = env.step(np.zeros(3, np.float32))[4]
        assert step_info["task"] == task
        np.testing.assert_array_equal(step_info["hidden"], hidden)
    still = gymnasium.make("resel/Hopper-gravity-v0", limit=0.0)
    assert still.reset(seed=0)[1]["hidden"].tolist() == [0.0]  # without a range


def test_several_fields_are_told_together() -> None:
    pytest.importorskip("mujoco")
    robot = TimeLimit(mujoco_env("HalfCheetah"), 50)
    inner = RandomizeField(robot, "body_mass", tasks=5, train_tasks=4, limit=1.0)
    env = RandomizeField(inner, "dof_damping", tasks=7, train_tasks=6, per_entry=True)
    simulator: Any = env.unwrapped
    nominal = {name: getattr(simulator.model, name).copy() for name in ("body_mass", "dof_damping")}
    seen = {}
    env.reset(seed=0)
    for _ in range(30):
        _, info = env.reset()
        hidden, heaviest = info["hidden"], nominal["body_mass"].argmax()
        mass = info["body_mass"][heaviest] / nominal["body_mass"][heaviest]
        assert hidden.shape == (1 + nominal["dof_damping"].size,)
        assert hidden[0] == pytest.approx((mass - 1 / 1.5) / (1.5 - 1 / 1.5), abs=1e-5)
        damped = nominal["dof_damping"] > 0
        factors = info["dof_damping"][damped] / nominal["dof_damping"][damped]
        spread = 1.5**3 - 1.5**-3
        np.testing.assert_allclose(hidden[1:][damped], (factors - 1.5**-3) / spread, atol=1e-5)
        assert not hidden[1:][~damped].any()
        seen.setdefault(info["task"], []).append(tuple(hidden))
        assert env.step(np.zeros(6, np.float32))[4]["task"] == info["task"]
    # A number for each combination: 4 masses of 5 and 6 dampings of 7.
    assert max(seen) < 4 * 7 and all(number % 7 < 6 for number in seen)
    assert all(len(set(values)) == 1 for values in seen.values())
    assert len({values[0] for values in seen.values()}) == len(seen) > 10
