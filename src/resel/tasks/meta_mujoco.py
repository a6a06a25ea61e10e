"""Meta-RL with MuJoCo robots: a goal hidden in the reward, and two episodes to find and use it."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from resel.tasks.simulators import mujoco_env
from resel.tasks.splits import TaskSplit
from resel.tasks.strict import Sealed
from resel.tasks.trial import HiddenGoal, Trial


class TorsoPosition(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Adds the position of the torso to a MuJoCo robot's observation."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        base = env.observation_space
        assert isinstance(base, spaces.Box)
        self.observation_space = spaces.Box(-np.inf, np.inf, (base.shape[0] + 3,), base.dtype.type)

    def observation(self, observation: NDArray[Any]) -> NDArray[Any]:
        """The same with three numbers more."""
        simulator: Any = self.unwrapped
        return np.concatenate([observation, simulator.get_body_com("torso")])


def ant_direction(
    split: str = "all",
    episodes: int = 2,
    episode_steps: int = 200,
    render_mode: str | None = None,
) -> gymnasium.Env[Any, Any]:
    """Run in one of two directions, 1 radian to either side of straight ahead."""

    def reward(info: dict[str, Any], action: NDArray[Any], angle: float) -> float:
        velocity = info["x_velocity"] * np.cos(angle) + info["y_velocity"] * np.sin(angle)
        return float(velocity - 0.5 * np.square(action).sum() + 1.0)

    robot, parts = mujoco_env("Ant", render_mode), TaskSplit(2, 1, split)
    env = HiddenGoal(robot, np.array([-1.0, 1.0]), (-1.0, 1.0), parts, reward)
    return Sealed(Trial(env, episodes, episode_steps))


def cheetah_direction(
    split: str = "all",
    episodes: int = 2,
    episode_steps: int = 200,
    render_mode: str | None = None,
) -> gymnasium.Env[Any, Any]:
    """Run forwards or backwards."""

    def reward(info: dict[str, Any], action: NDArray[Any], sign: float) -> float:
        return float(sign * info["x_velocity"] - 0.05 * np.square(action).sum())

    robot = TorsoPosition(mujoco_env("HalfCheetah", render_mode))
    parts = TaskSplit(2, 1, split)
    env = HiddenGoal(robot, np.array([-1.0, 1.0]), (-1.0, 1.0), parts, reward)
    return Sealed(Trial(env, episodes, episode_steps))


def cheetah_velocity(
    split: str = "train",
    tasks: int = 120,
    train_tasks: int = 100,
    task_seed: int = 1337,
    episodes: int = 2,
    episode_steps: int = 200,
    render_mode: str | None = None,
) -> gymnasium.Env[Any, Any]:
    """Run at a velocity from 0 to 3."""

    def reward(info: dict[str, Any], action: NDArray[Any], velocity: float) -> float:
        return float(-abs(info["x_velocity"] - velocity) - 0.05 * np.square(action).sum())

    parts = TaskSplit(tasks, train_tasks, split)
    limits = (0.0, 3.0)
    velocities = np.random.RandomState(task_seed).uniform(*limits, tasks)
    robot = TorsoPosition(mujoco_env("HalfCheetah", render_mode))
    env = HiddenGoal(robot, velocities, limits, parts, reward)
    return Sealed(Trial(env, episodes, episode_steps))
