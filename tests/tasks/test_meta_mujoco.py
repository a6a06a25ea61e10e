"""Meta-RL robots: two episodes under one goal, told by nothing but the reward."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from presets import task_settings

from resel.errors import BadInputError, ConfigError
from resel.tasks import make_env

pytest.importorskip("mujoco")

IDS = ["AntDir-v0", "CheetahDir-v0", "HalfCheetahVel-v0"]
every_task = pytest.mark.parametrize("id", IDS)


def expected(id: str, info: dict[str, Any], velocity: Any, action: Any) -> float:
    effort = float(np.square(action).sum())
    if id == "AntDir-v0":
        angle = info["goal"]
        return float(velocity @ [np.cos(angle), np.sin(angle)] - 0.5 * effort + 1)
    if id == "CheetahDir-v0":
        return float(info["goal"] * velocity[0] - 0.05 * effort)
    return float(-abs(velocity[0] - info["goal"]) - 0.05 * effort)


@every_task
def test_observation_and_reward(id: str) -> None:
    env = make_env(id)
    simulator: Any = env.unwrapped
    rng = np.random.default_rng(0)
    ant = id == "AntDir-v0"

    def place() -> Any:
        """Where the velocity is measured: the Ant's torso, the Cheetah's first coordinate."""
        if ant:
            return simulator.get_body_com("torso")[:2].copy()
        return simulator.data.qpos[:2].copy()

    observation, info = env.reset(seed=0)
    for _ in range(30):
        data = simulator.data
        parts = [data.qpos[2:], data.qvel] if ant else [data.qpos[1:], data.qvel]
        if not ant:
            parts.append(simulator.get_body_com("torso"))
        np.testing.assert_array_equal(observation, np.concatenate([*parts, [0.0]]))
        before = place()
        action = rng.uniform(-1, 1, simulator.model.nu).astype(np.float32)
        observation, reward, terminated, truncated, step_info = env.step(action)
        velocity = (place() - before) / 0.05
        assert reward == pytest.approx(expected(id, info, velocity, action))
        assert (terminated, truncated) == (False, False)
        assert step_info["goal"] == info["goal"] and step_info["episode"] == 0


@pytest.mark.parametrize("id", IDS[1:])
def test_two_episodes_of_200_steps(id: str, play: Any) -> None:
    env = make_env(id)
    trial = play(env, 3)
    assert len(trial.rewards) == 400
    assert (trial.terminated, trial.truncated) == (False, True)
    flags = [int(o[-1]) for o in trial.observations]
    assert [i for i, flag in enumerate(flags) if flag] == [200, 400]
    assert [i["episode"] for i in trial.infos] == [0] * 200 + [1] * 200
    assert len({i["goal"] for i in trial.infos}) == 1
    # The robot is back at a start, which the observation of that step does not show yet.
    start = trial.infos[199]["start_observation"]
    assert np.abs(start[:8]).max() <= 0.1 + 1e-9 and start[-1] == 0
    assert np.abs(trial.observations[200][:8]).max() > 0.1
    assert [i for i, info in enumerate(trial.infos) if "start_observation" in info] == [199]
    with pytest.raises(ResetNeeded, match="no episode running"):
        env.step(np.zeros(6))


def test_a_fall_ends_the_first_episode_and_the_second_terminates() -> None:
    env = make_env("AntDir-v0")
    simulator: Any = env.unwrapped
    still = np.zeros(8, np.float32)

    def topple() -> tuple[Any, ...]:
        simulator.data.qpos[2] = 1.5  # above the healthy range
        return env.step(still)

    env.reset(seed=0)
    assert not any(env.step(still)[0][-1] for _ in range(5))
    observation, _, terminated, truncated, info = topple()
    assert (observation[-1], terminated, truncated, info["episode"]) == (1, False, False, 0)
    assert observation[0] > 1 > info["start_observation"][0]
    observation, _, terminated, _, info = env.step(still)
    assert (observation[-1], terminated, info["episode"]) == (0, False, 1)
    assert "start_observation" not in info
    assert topple()[2:4] == (True, False)
    # A fall in the first episode alone: the trial is shorter, and its end is a truncation.
    env.reset(seed=0)
    topple()
    ends = [env.step(still)[2:4] for _ in range(200)]
    assert ends == [(False, False)] * 199 + [(False, True)]


def test_a_fall_at_the_last_moment_is_a_fall() -> None:
    env = gymnasium.make("resel/AntDir-v0", episodes=1, episode_steps=3)
    simulator: Any = env.unwrapped
    env.reset(seed=0)
    still = np.zeros(8, np.float32)
    env.step(still)
    env.step(still)
    simulator.data.qpos[2] = 1.5
    assert env.step(still)[2:4] == (True, False)


@pytest.mark.parametrize(("id", "goals"), [("AntDir-v0", {-1, 1}), ("CheetahDir-v0", {-1, 1})])
def test_two_directions(id: str, goals: set[int]) -> None:
    for evaluation in (False, True):
        env = make_env(id, evaluation=evaluation)
        env.reset(seed=0)
        drawn = [env.reset()[1]["goal"] for _ in range(200)]
        assert set(drawn) == goals and abs(np.mean(drawn)) < 0.2


def test_velocities_are_split() -> None:
    drawn = []
    for evaluation in (False, True):
        env = make_env("HalfCheetahVel-v0", evaluation=evaluation)
        env.reset(seed=0)
        infos = [env.reset()[1] for _ in range(1500)]
        drawn.append({info["task"]: info["goal"] for info in infos})
    assert set(drawn[0]) == set(range(100)) and set(drawn[1]) == set(range(100, 120))
    values = [*drawn[0].values(), *drawn[1].values()]
    assert len(set(values)) == 120 and min(values) >= 0 and max(values) <= 3


@every_task
def test_the_goal_is_not_observed(id: str) -> None:
    """The same seed with another goal differs in rewards and nothing else that is seen."""
    env, trials = make_env(id), []
    for task in (0, 1):
        first, info = env.reset(seed=4, options={"task": task})
        steps = [env.step(np.full(env.action_space.shape or (), 0.1)) for _ in range(20)]
        trials.append((info["goal"], [first, *(s[0] for s in steps)], [s[1] for s in steps]))
    (goal, seen, rewards), (other_goal, other_seen, other_rewards) = trials
    np.testing.assert_array_equal(np.stack(seen), np.stack(other_seen))
    assert goal != other_goal and rewards != other_rewards


@every_task
def test_seeds_alone_decide(id: str, repeats: Any) -> None:
    repeats(lambda: make_env(id))
    repeats(lambda: gymnasium.make(f"resel/{id}", episode_steps=20))  # across an inner reset


def test_bad_input() -> None:
    env = make_env("AntDir-v0")
    with pytest.raises(ConfigError, match=r"no task 2.*0 to 1"):
        env.reset(options={"task": 2})
    env.reset(seed=0)
    with pytest.raises(BadInputError, match=r"shape \(7,\), expected \(8,\)"):
        env.step(np.zeros(7))
    for kwargs in ({"episodes": 0}, {"episode_steps": 2.5}, {"episode_steps": -1}):
        with pytest.raises(ConfigError, match="cannot work: a whole number of at least 1"):
            gymnasium.make("resel/CheetahDir-v0", **kwargs)
    with pytest.raises(ConfigError, match="no task 120"):
        make_env("HalfCheetahVel-v0").reset(options={"task": 120})


@every_task
def test_settings(id: str) -> None:
    paper, released = task_settings(id), task_settings(id, "released")
    assert paper["reward_input"] and paper["steps"] == 5_000_000
    assert (paper["batch_steps"], released["batch_steps"]) == (1000, 999)
    for settings in (paper, released):
        rates = [settings[name] for name in ("lr_context_encoder", "lr_policy", "lr_critic")]
        assert rates == [2e-6, 6e-5, 2e-4]
