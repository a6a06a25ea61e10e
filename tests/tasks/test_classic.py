"""Robots of PyBullet with half of the observation hidden."""

from __future__ import annotations

import gc
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from presets import task_settings

from resel.errors import BadInputError, ConfigError, MissingDependencyError
from resel.tasks import make_env
from resel.tasks.simulators import bullet_env

pytest.importorskip("pybullet_envs_gymnasium")

KEPT = {  # as the paper's predecessors list them
    "AntBLT-P": [0, 1, 2, 6, 7, 8, 10, 12, 14, 16, 18, 20, 22, 24, 25, 26, 27],
    "AntBLT-V": [3, 4, 5, 9, 11, 13, 15, 17, 19, 21, 23],
    "HalfCheetahBLT-P": [0, 1, 2, 6, 7, 8, 10, 12, 14, 16, 18, 20, 21, 22, 23, 24, 25],
    "HalfCheetahBLT-V": [3, 4, 5, 9, 11, 13, 15, 17, 19],
    "HopperBLT-P": [0, 1, 2, 6, 7, 8, 10, 12, 14],
    "HopperBLT-V": [3, 4, 5, 9, 11, 13],
    "WalkerBLT-P": [0, 1, 2, 6, 7, 8, 10, 12, 14, 16, 18, 20, 21],
    "WalkerBLT-V": [3, 4, 5, 9, 11, 13, 15, 17, 19],
}
ROBOTS = {"Ant": ("Ant", 28), "HalfCheetah": ("HalfCheetah", 26), "Hopper": ("Hopper", 15)}
ROBOTS["Walker"] = ("Walker2D", 22)
every_robot = pytest.mark.parametrize("robot", ROBOTS)


@every_robot
def test_positions_and_velocities_share_out_the_full_observation(robot: str, play: Any) -> None:
    base, size = ROBOTS[robot]
    full = play(bullet_env(base), 3, 40).observations
    for suffix in "PV":
        kept = KEPT[f"{robot}BLT-{suffix}"]
        seen = play(make_env(f"{robot}BLT-{suffix}-v0"), 3, 40).observations
        np.testing.assert_array_equal(np.stack(seen), np.stack(full)[:, kept])
    assert sorted(KEPT[f"{robot}BLT-P"] + KEPT[f"{robot}BLT-V"]) == list(range(size))


def alive(robot: str, height: float, pitch: float, contacts: Any) -> bool:
    if robot == "Ant":
        return height > 0.26
    if robot == "HalfCheetah":  # shins and thighs off the ground
        return abs(pitch) < 1 and not contacts[[1, 2, 4, 5]].any()
    return height > 0.8 and abs(pitch) < 1


@every_robot
def test_the_reward_and_the_end(robot: str) -> None:
    env: Any = bullet_env(ROBOTS[robot][0])
    joints = env.action_space.shape[0]
    observation, _ = env.reset(seed=0)
    rng, start = np.random.default_rng(0), env.robot.initial_z
    for _ in range(100):
        before = np.hypot(1000 - env.robot.body_xyz[0], env.robot.body_xyz[1])
        action = rng.uniform(-1, 1, joints).astype(np.float32)
        observation, reward, terminated, truncated, _ = env.step(action)
        after = np.hypot(1000 - env.robot.body_xyz[0], env.robot.body_xyz[1])
        height, pitch = observation[0] + start, observation[7]
        contacts = observation[8 + 2 * joints :]
        good = alive(robot, height, pitch, contacts)
        angles = observation[8 : 8 + 2 * joints : 2]
        speeds = observation[9 : 9 + 2 * joints : 2]
        expected = (
            (1 if good else -1)
            + (before - after) / 0.0165
            - 2.0 * np.abs(action * speeds).mean()
            - 0.1 * np.square(action).mean()
            - 0.1 * (np.abs(angles) > 0.99).sum()
        )
        assert reward == pytest.approx(expected, abs=1e-3)
        assert terminated == (robot != "HalfCheetah" and not good)
        assert not truncated
        if terminated:
            break
    assert terminated == (robot in ("Hopper", "Walker"))


@every_robot
def test_seeds_alone_decide(robot: str, repeats: Any) -> None:
    repeats(lambda: make_env(f"{robot}BLT-P-v0"))


def test_the_time_limit_truncates() -> None:
    env = gymnasium.make("resel/HalfCheetahBLT-V-v0")
    env.reset(seed=0)
    still = np.zeros(env.action_space.shape or (), np.float32)
    ends = [env.step(still)[2:4] for _ in range(1000)]
    assert ends == [(False, False)] * 999 + [(False, True)]
    with pytest.raises(ResetNeeded, match=r"call reset\(\) before step\(\)"):
        env.step(still)


def test_falling_terminates_and_needs_a_reset(play: Any) -> None:
    env = make_env("HopperBLT-P-v0")
    with pytest.raises(ResetNeeded, match="no episode running"):
        env.step(np.zeros(3, np.float32))
    episode = play(env)
    assert episode.terminated and not episode.truncated
    with pytest.raises(ResetNeeded, match="no episode running"):
        env.step(np.zeros(3, np.float32))


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.zeros(4), r"shape \(4,\), expected \(3,\)"),
        (0.0, r"shape \(\), expected \(3,\)"),
        ([0, 1.5, 0], "lies outside its space"),
        ([0, np.nan, 0], "lies outside its space"),
        ("left", "not an array of numbers"),
    ],
)
def test_bad_actions(action: Any, message: str) -> None:
    env = make_env("HopperBLT-V-v0")
    env.reset(seed=0)
    with pytest.raises(BadInputError, match=message):
        env.step(action)
    env.step([0.5, -1, 1])  # the episode goes on


def test_it_prints_nothing_and_draws(capfd: pytest.CaptureFixture[str]) -> None:
    env = make_env("WalkerBLT-P-v0", render_mode="rgb_array")
    env.reset(seed=0)
    picture: Any = env.render()
    env.close()
    assert picture.shape == (240, 320, 3) and picture.dtype == np.uint8
    assert picture.std() > 5
    assert capfd.readouterr().out == ""


def test_it_draws_after_another_one_is_gone() -> None:
    """PyBullet's first simulation, whichever it is, must not be needed for pictures."""
    first = make_env("HopperBLT-P-v0")
    env = make_env("HalfCheetahBLT-V-v0", render_mode="rgb_array")
    env.reset(seed=0)
    first.close()
    del first
    gc.collect()
    picture: Any = env.render()
    env.close()
    assert picture.std() > 5
    with pytest.raises(ConfigError, match="render_mode='ansi' is not known"):
        make_env("WalkerBLT-P-v0", render_mode="ansi")


def test_a_missing_simulator_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pybullet_envs_gymnasium", "pybullet_envs_gymnasium.gym_locomotion_envs"):
        monkeypatch.setitem(sys.modules, name, None)
    for make in (gymnasium.make, make_env):
        with pytest.raises(MissingDependencyError, match=r"pip install 'resel\[pybullet\]'"):
            make("resel/AntBLT-P-v0")


def test_an_environment_is_rebuilt_from_its_spec(play: Any) -> None:
    env = make_env("HopperBLT-V-v0")
    assert env.spec is not None
    again = gymnasium.make(env.spec)
    assert play(again, 3, 30).same(play(env, 3, 30))


def test_settings() -> None:
    paper, released = task_settings("AntBLT-V-v0"), task_settings("AntBLT-V-v0", "released")
    assert paper["batch_steps"] == 2000 and paper["steps"] == 1_500_000
    rates = ("lr_context_encoder", "lr_policy", "lr_critic")
    assert [paper[name] for name in rates] == [1e-5, 3e-4, 1e-3]
    assert [released[name] for name in rates] == [1e-5, 5e-4, 5e-4]
    assert released["batch_steps"] == 128
    assert task_settings("WalkerBLT-P-v0", "released")["lr_context_encoder"] == 5e-6
    assert task_settings("HopperBLT-P-v0", "released")["batch_steps"] == 1999
