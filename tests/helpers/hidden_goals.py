"""A task of seconds that has to be found out: do what only the rewards tell of."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

STEPS = 8
GOALS = (-0.7, -0.3, 0.3, 0.7, -0.5, 0.5)
"""Of task 0 and so on; the last two are held out."""
BEST = float(STEPS)


class HiddenGoals(gymnasium.Env[Any, Any]):
    """Observation: the time left. 1 for an action at the goal, less by the distance to it."""

    def __init__(self, held_out: bool = False, obeys: bool = True) -> None:
        self.observation_space = spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)
        self._tasks, self._obeys = range(4, 6) if held_out else range(4), obeys
        self.played: list[int] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        asked = (options or {}).get("task") if self._obeys else None
        drawn = self._tasks[0] + (seed or 0) % len(self._tasks)
        self._task, self._left = drawn if asked is None else asked, STEPS
        self.played.append(self._task)
        told = {"task": self._task, "hidden": GOALS[self._task]}
        return self._observation(), told

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._left -= 1
        reward = 1.0 - abs(float(action[0]) - GOALS[self._task])
        return self._observation(), reward, False, self._left == 0, {}

    def _observation(self) -> Any:
        return np.array([self._left / STEPS], np.float32)
