"""Randomised dynamics: the field really changes, the split holds, and nothing shows it."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.wrappers import TimeLimit
from presets import task_settings

from resel.errors import BadInputError, ConfigError, MissingDependencyError
from resel.tasks import RandomizeField, make_env
from resel.tasks.simulators import mujoco_env

pytest.importorskip("mujoco")

ROBOTS = ["Ant", "HalfCheetah", "Hopper", "Humanoid", "Walker2d"]
every_robot = pytest.mark.parametrize("robot", ROBOTS)


def scales(env: Any) -> Any:
    """All scales of gravity, found from the outside."""
    return np.array([env.reset(options={"task": i})[1]["gravity"][2] / -9.81 for i in range(60)])


def test_sixty_gravities_within_the_papers_range() -> None:
    env = make_env("Hopper-gravity-v0")
    found = scales(env)
    exponents = np.log(found) / np.log(1.5)
    assert (np.abs(exponents) <= 3).all() and np.ptp(exponents) > 4.5
    assert len(set(found.tolist())) == 60
    assert 9.81 * found.min() > 2.9 and 9.81 * found.max() < 33.2
    np.testing.assert_array_equal(found, scales(make_env("Hopper-gravity-v0", evaluation=True)))
    np.testing.assert_array_equal(found, scales(make_env("Walker2d-gravity-v0")))


def test_training_and_evaluation_share_no_gravity() -> None:
    drawn = []
    for evaluation in (False, True):
        env = make_env("HalfCheetah-gravity-v0", evaluation=evaluation)
        env.reset(seed=0)
        drawn.append({env.reset()[1]["task"] for _ in range(500)})
    assert drawn == [set(range(40)), set(range(40, 60))]


@pytest.mark.parametrize("task", [0, 7, 41])
def test_gravity_changes_free_fall(task: int) -> None:
    env = make_env("Ant-gravity-v0")
    _, info = env.reset(seed=0, options={"task": task})
    robot: Any = env.unwrapped
    start, velocity = robot.init_qpos.copy(), np.zeros(robot.model.nv)
    start[2] = 50.0
    robot.set_state(start, velocity)
    still = np.zeros(8, np.float32)
    for _ in range(4):
        robot.step(still)  # past the guard, for which this height is a fall
    fallen, time = robot.data.qvel[2], 4 * robot.dt
    assert fallen / time == pytest.approx(info["gravity"][2], rel=0.02)


@every_robot
def test_the_value_is_constant_told_and_not_observed(robot: str) -> None:
    env = make_env(f"{robot}-gravity-v0")
    starts = []
    for task in (3, 4):
        start, info = env.reset(seed=1, options={"task": task})
        model: Any = env.unwrapped
        value = info["gravity"]
        for _ in range(5):
            *_, step_info = env.step(np.zeros(env.action_space.shape or (), np.float32))
            np.testing.assert_array_equal(step_info["gravity"], value)
        np.testing.assert_array_equal(model.model.opt.gravity, value)
        assert value[0] == value[1] == 0
        starts.append(start)
    # The first moment is the same whatever the gravity; only its effects are ever seen.
    np.testing.assert_array_equal(*starts)
    assert starts[0].shape == mujoco_env(robot).observation_space.shape


@every_robot
def test_seeds_alone_decide(robot: str, repeats: Any) -> None:
    repeats(lambda: make_env(f"{robot}-gravity-v0"))


def test_seeds_choose_the_task_too() -> None:
    envs = [make_env("Hopper-gravity-v0") for _ in range(2)]
    drawn = [[env.reset(seed=s)[1]["task"] for s in range(30)] for env in envs]
    assert drawn[0] == drawn[1] and len(set(drawn[0])) > 10


def test_without_scaling_it_is_the_plain_task() -> None:
    plain, scaled = make_env("Hopper-v2"), gymnasium.make("resel/Hopper-gravity-v0", limit=0.0)
    scaled.reset(seed=3)
    plain.reset(seed=3)
    one_robot: Any = plain.unwrapped
    other_robot: Any = scaled.unwrapped
    one_robot.set_state(other_robot.data.qpos, other_robot.data.qvel)
    for _ in range(10):
        action = np.full(3, 0.3, np.float32)
        one, two = plain.step(action), scaled.step(action)
        np.testing.assert_array_equal(one[0], two[0])
        assert one[1:4] == two[1:4]


def test_the_limit_truncates_and_a_fall_terminates(play: Any) -> None:
    runner = play(make_env("HalfCheetah-gravity-v0"))
    assert len(runner.rewards) == 1000 and runner.truncated and not runner.terminated
    env = make_env("Hopper-gravity-v0")
    hopper = play(env)
    assert hopper.terminated and not hopper.truncated
    with pytest.raises(ResetNeeded, match="no episode running"):
        env.step(np.zeros(3))


@pytest.mark.parametrize("per_entry", [False, True])
@pytest.mark.parametrize("field", ["body_mass", "geom_friction", "dof_damping", "gravity"])
def test_any_field_of_the_model(field: str, per_entry: bool) -> None:
    env = RandomizeField(
        TimeLimit(mujoco_env("HalfCheetah"), 50), field, per_entry=per_entry, tasks=6, train_tasks=4
    )
    simulator: Any = env.unwrapped
    holder = simulator.model.opt if field == "gravity" else simulator.model
    nominal = getattr(holder, field).copy()
    inertia = simulator.model.body_inertia.copy()
    ends = []
    for task in (0, 1, 0):
        observation, info = env.reset(seed=0, options={"task": task})
        np.testing.assert_array_equal(getattr(holder, field), info[field])
        factors = (info[field] / np.where(nominal == 0, 1, nominal))[nominal != 0]
        assert (np.ptp(factors) > 0.1) == (per_entry and factors.size > 1)
        assert (factors >= 1.5**-3).all() and (factors <= 1.5**3).all()
        if field == "body_mass":
            density = info[field][1:] / nominal[1:]
            np.testing.assert_allclose(
                simulator.model.body_inertia[1:], inertia[1:] * density[:, None]
            )
            mass = simulator.model.body_subtreemass[0]
            assert mass == pytest.approx(info[field].sum())  # derived constants follow
        for _ in range(20):
            observation, *_ = env.step(np.full(6, 0.5, np.float32))
        ends.append(observation)
    np.testing.assert_array_equal(ends[0], ends[2])
    assert np.abs(ends[0] - ends[1]).max() > 1e-4


def test_a_wrapped_environment_is_rebuilt_from_its_spec() -> None:
    env = RandomizeField(gymnasium.make("Hopper-v5"), "dof_damping", limit=1.0)
    assert env.spec is not None
    again = gymnasium.make(env.spec)
    assert again.reset(seed=0)[1]["dof_damping"] == pytest.approx(
        env.reset(seed=0)[1]["dof_damping"]
    )


def test_bad_input() -> None:
    env = make_env("Ant-gravity-v0")
    for task, message in ((60, "no task 60.*0 to 59"), (-1, "no task -1"), ("x", "whole number")):
        with pytest.raises(ConfigError, match=message):
            env.reset(options={"task": task})
    env.reset(seed=0)
    with pytest.raises(BadInputError, match="outside its space"):
        env.step(np.full(8, 1.01))
    for kwargs, message in (
        ({"limit": -1.0}, "limit=-1.0 with base=1.5 cannot work"),
        ({"limit": float("inf")}, "limit=inf"),
        ({"limit": "far"}, "limit='far' and base=1.5 must be numbers"),
        ({"limit": 50.0}, "limit=50.0 .* within a factor of 1000"),
        ({"task_seed": "first"}, "task_seed='first' must be a whole number"),
        ({"task_seed": -1}, "task_seed=-1 must be a whole number"),
        ({"split": "eval"}, "split='eval' is not known"),
        ({"tasks": 40, "split": "test"}, "leaves none"),
        ({"tasks": 2.5}, "total=2.5"),
    ):
        with pytest.raises(ConfigError, match=message):
            gymnasium.make("resel/Ant-gravity-v0", **kwargs)
    for field in ("names", "no_such", "nbody", "body_parentid"):
        with pytest.raises(ConfigError, match=f"field='{field}' is not an array of numbers"):
            RandomizeField(mujoco_env("Hopper"), field)
    with pytest.raises(ConfigError, match="has no MuJoCo model"):
        RandomizeField(make_env("TMaze-v0"))


def test_a_missing_simulator_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    for make in (gymnasium.make, make_env):
        with pytest.raises(MissingDependencyError, match=r"pip install 'resel\[mujoco\]'"):
            make("resel/Ant-gravity-v0")


def test_settings() -> None:
    paper = task_settings("Hopper-gravity-v0")
    released = task_settings("Hopper-gravity-v0", "released")
    rates = ("lr_context_encoder", "lr_policy", "lr_critic")
    assert [paper[name] for name in rates] == [1e-5, 3e-4, 1e-3]
    assert [released[name] for name in rates] == [2e-6, 6e-5, 2e-4]
    assert (paper["batch_steps"], released["batch_steps"]) == (1000, 999)
    assert "target_entropy_scale" not in paper and released["target_entropy_scale"] == 0
    assert "target_entropy_scale" not in task_settings("Ant-gravity-v0", "released")
    assert paper["steps"] == 2_000_000 and "reward_input" not in paper
