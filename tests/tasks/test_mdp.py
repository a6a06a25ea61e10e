"""MuJoCo robots, fully observed, as near to version 2 as version 4 gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from presets import task_settings

from resel.tasks import make_env

pytest.importorskip("mujoco")

ROBOTS = ["HalfCheetah", "Hopper", "Walker2d", "Ant", "Humanoid"]
every_robot = pytest.mark.parametrize("robot", ROBOTS)


def centre(simulator: Any, robot: str) -> float:
    """The coordinate whose speed is paid."""
    data, model = simulator.data, simulator.model
    if robot == "Ant":
        return float(data.body("torso").xpos[0])
    if robot == "Humanoid":
        return float((model.body_mass @ data.xipos[:, 0]) / model.body_mass.sum())
    return float(data.qpos[0])


def healthy(simulator: Any, robot: str) -> bool:
    height, angle = simulator.data.qpos[1:3]
    if robot == "HalfCheetah":
        return True
    if robot == "Hopper":
        state = np.concatenate([simulator.data.qpos, simulator.data.qvel])
        return bool(height > 0.7 and abs(angle) < 0.2 and (np.abs(state[2:]) < 100).all())
    if robot == "Walker2d":
        return bool(0.8 < height < 2 and abs(angle) < 1)
    low, high = (0.2, 1.0) if robot == "Ant" else (1.0, 2.0)
    return bool(low <= simulator.data.qpos[2] <= high)


@every_robot
def test_reward_observation_and_end(robot: str) -> None:
    env = make_env(f"{robot}-v2")
    simulator: Any = env.unwrapped
    rng, limit = np.random.default_rng(0), env.action_space
    assert isinstance(limit, gymnasium.spaces.Box)
    assert limit.high[0] == pytest.approx(0.4 if robot == "Humanoid" else 1.0)
    observation, _ = env.reset(seed=0)
    for _ in range(100):
        before = centre(simulator, robot)
        action = rng.uniform(limit.low, limit.high).astype(np.float32)
        observation, reward, terminated, truncated, _ = env.step(action)
        speed = (centre(simulator, robot) - before) / simulator.dt
        effort = float(np.square(action.astype(np.float64)).sum())
        assert reward == pytest.approx(
            {
                "HalfCheetah": speed - 0.1 * effort,
                "Hopper": speed + 1 - 1e-3 * effort,
                "Walker2d": speed + 1 - 1e-3 * effort,
                "Ant": speed + 1 - 0.5 * effort,
                "Humanoid": 1.25 * speed + 5 - 0.1 * effort,
            }[robot],
            abs=1e-6,
        )
        assert terminated == (not healthy(simulator, robot)) and not truncated
        data, skip = simulator.data, 2 if robot in ("Ant", "Humanoid") else 1
        velocity = data.qvel
        if robot in ("Hopper", "Walker2d"):
            velocity = np.clip(velocity, -10, 10)
        known = np.concatenate([data.qpos[skip:], velocity])
        np.testing.assert_array_equal(observation[: len(known)], known)
        if terminated:
            break
    assert len(observation) == (376 if robot == "Humanoid" else len(known))
    assert terminated == (robot != "HalfCheetah")  # random play makes all others fall


def test_humanoid_feels_no_contacts(play: Any) -> None:
    env = make_env("Humanoid-v2")
    observations = np.stack(play(env, 0, 60).observations)
    simulator: Any = env.unwrapped
    assert np.abs(simulator.data.cfrc_ext).max() > 0  # computed, unlike in version 2
    assert not observations[:, -84:].any()
    assert observations[:, :-84].any(axis=0).sum() > 200


@every_robot
def test_seeds_alone_decide(robot: str, repeats: Any) -> None:
    repeats(lambda: make_env(f"{robot}-v2"))


def test_our_names_win_and_do_not_warn(
    recwarn: pytest.WarningsRecorder,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    env = make_env("HalfCheetah-v2")
    assert env.spec is not None and env.spec.id == "resel/HalfCheetah-v2"
    assert not recwarn.list
    # MuJoCo would remark on the model, on the screen and in a file where one stands.
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


def test_the_limit_truncates(play: Any) -> None:
    episode = play(make_env("HalfCheetah-v2"))
    assert len(episode.rewards) == 1000 and episode.truncated and not episode.terminated


def test_settings() -> None:
    rates = ("lr_context_encoder", "lr_policy", "lr_critic")
    for robot in ROBOTS:
        paper = task_settings(f"{robot}-v2")
        released = task_settings(f"{robot}-v2", "released")
        assert [paper[name] for name in rates] == [2e-6, 6e-5, 2e-4]
        assert (paper["batch_steps"], released["batch_steps"]) == (1000, 1999)
        assert (paper.get("target_entropy_scale") == 0) == (robot == "Hopper")
        factor = 5 if robot == "HalfCheetah" else 1
        assert [released[name] / factor for name in rates] == pytest.approx([2e-6, 6e-5, 2e-4])
        assert paper["steps"] == 5_000_000 and "reward_input" not in paper
