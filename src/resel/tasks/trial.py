"""Trials: several episodes with one goal that is hidden in the reward, to find it and use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from resel.errors import ConfigError
from resel.tasks.splits import TaskSplit, tell_task

Reward = Callable[[dict[str, Any], NDArray[Any], float], float]
"""From the info of a step, the action and the goal."""


class HiddenGoal(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Pays by a goal within `limits` that is drawn at each reset and stands in `info` only."""

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        goals: NDArray[np.float64],
        limits: tuple[float, float],
        split: TaskSplit,
        reward: Reward,
    ) -> None:
        super().__init__(env)
        self.goals, self.limits, self.split = goals, limits, split
        self._reward, self._task = reward, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """A new goal, or with `options={"task": 3}` that one; the start does not depend on it."""
        observation, info = self.env.reset(seed=seed)
        self._task = self.split.draw(self.np_random, seed, options)
        return observation, {**info, **self._told()}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """A step, paid by the goal."""
        observation, _, terminated, truncated, info = self.env.step(action)
        reward = self._reward(info, np.asarray(action), float(self.goals[self._task]))
        return observation, reward, terminated, truncated, {**info, **self._told()}

    def restart(self) -> tuple[Any, dict[str, Any]]:
        """Back to a start, with the same goal."""
        observation, info = self.env.reset()
        return observation, {**info, **self._told()}

    def _told(self) -> dict[str, Any]:
        goal = float(self.goals[self._task])
        return {**tell_task(self._task, goal, *self.limits), "goal": goal}


class Trial(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Several episodes with one goal as a single one, so that memory reaches across them.

    The observation gets a flag that is 1 when an episode ended with this step. Then it still
    shows that episode's last state, while the next action already acts on the new start, which
    only `info["start_observation"]` shows; this is how the earlier work does it. The trial
    terminates with a fall in its last episode and is truncated at the end of that episode's time.
    """

    def __init__(self, env: HiddenGoal, episodes: int = 2, episode_steps: int = 200) -> None:
        for name, value in (("episodes", episodes), ("episode_steps", episode_steps)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name}={value!r} cannot work: a whole number of at least 1.")
        super().__init__(env)
        self._goal = env
        self.episodes, self.episode_steps = episodes, episode_steps
        base = env.observation_space
        assert isinstance(base, spaces.Box)
        self.observation_space = spaces.Box(
            np.append(base.low, 0.0), np.append(base.high, 1.0), dtype=base.dtype.type
        )
        self._episode = self._time = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """A new trial with a new goal."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._episode = self._time = 0
        return np.append(observation, 0.0), {**info, "episode": 0}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """A step of the episode under way; the last step of one begins the next."""
        observation, reward, fallen, _, info = self.env.step(action)
        info["episode"] = self._episode
        self._time += 1
        ended = fallen or self._time == self.episode_steps
        last = self._episode == self.episodes - 1
        if ended and not last:
            self._episode, self._time = self._episode + 1, 0
            info["start_observation"] = np.append(self._goal.restart()[0], 0.0)
        seen = np.append(observation, float(ended))
        return seen, reward, fallen and last, ended and last and not fallen, info
