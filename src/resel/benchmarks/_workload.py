"""Sizes of tasks that are measured without their simulators."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from resel.networks import Dimensions

HALF_CHEETAH = Dimensions(17, 6, discrete=False)
HUMANOID = Dimensions(376, 17, discrete=False)


class Idle(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """An environment as large as HalfCheetah in which nothing happens."""

    observation_space = spaces.Box(-np.inf, np.inf, (HALF_CHEETAH.observation,), np.float32)
    action_space = spaces.Box(-1, 1, (HALF_CHEETAH.action,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        return np.zeros(HALF_CHEETAH.observation, np.float32), {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        return np.zeros(HALF_CHEETAH.observation, np.float32), 0.0, False, False, {}
