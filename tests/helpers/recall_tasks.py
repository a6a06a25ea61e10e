"""Tasks of seconds whose best and worst returns are known: do what a sign in the observation says.

The sign is shown at every step, or for agents with a memory at the first step only.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

STEPS = 8
SOLVED = float(STEPS)
"""The return of whoever always does what the sign says."""


class Sign(gymnasium.Env[Any, Any]):
    """Observation: the sign, which is one of +1 and -1 (or 0 once hidden), and the time left.

    Box: 1 for an action at 0.8 in the direction of the sign, less by the distance to it.
    Which sign it is, is told as task and hidden parameter.
    Discrete: 1 for the first or the last of three actions, as the sign says; else nothing.
    """

    def __init__(self, space: str, hidden: bool) -> None:
        self._hidden = hidden
        self.observation_space = spaces.Box(-1, 1, (2,), np.float32)
        self.action_space: spaces.Space[Any] = (
            spaces.Discrete(3) if space == "Discrete" else spaces.Box(-1, 1, (1,), np.float32)
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._sign = int(self.np_random.choice([-1, 1]))
        self._left = STEPS
        number = (1 + self._sign) // 2
        return self._observation(), {"task": number, "hidden": number}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._left -= 1
        return self._observation(), self._reward(action), self._left == 0, False, {}

    def _reward(self, action: Any) -> float:
        if isinstance(self.action_space, spaces.Discrete):
            return float(action == 1 + self._sign)
        return 1.0 - abs(float(action[0]) - 0.8 * self._sign)

    def _observation(self) -> Any:
        shown = self._sign if self._left == STEPS or not self._hidden else 0
        return np.array([shown, self._left / STEPS], np.float32)
