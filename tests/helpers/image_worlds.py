"""Worlds with images: one by itself, and several beside other numbers."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Sides(gymnasium.Env[Any, Any]):
    """A patch on the left or on the right of a picture that is all noise; say where, every time."""

    def __init__(self, length: int = 50) -> None:
        self._length = length
        self.observation_space = spaces.Box(0, 255, (7, 7, 3), np.uint8)
        self.action_space = spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._time = 0
        return self._picture(), {}

    def _picture(self) -> Any:
        self._right = int(self.np_random.integers(2))
        picture = self.np_random.integers(0, 120, (7, 7, 3), np.uint8)
        picture[2:5, 4 * self._right : 4 * self._right + 3, 1] = 220
        return picture

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward, self._time = float(int(action) == self._right), self._time + 1
        return self._picture(), reward, False, self._time == self._length, {}


class Cameras(gymnasium.Env[Any, Any]):
    """Two pictures of different sizes, a grey one among them, between other numbers."""

    LAYOUT = spaces.Dict(
        {
            "arm": spaces.Box(-np.inf, np.inf, (3,), np.float32),
            "far": spaces.Box(0, 255, (3, 14, 16), np.uint8),
            "gear": spaces.Discrete(3),
            "near": spaces.Box(0, 10, (5, 6), np.uint8),
        }
    )

    def __init__(self, action: str = "Discrete", length: int = 6) -> None:
        self._length = length
        self.observation_space = self.LAYOUT
        self.action_space: spaces.Space[Any] = (
            spaces.Discrete(2) if action == "Discrete" else spaces.Box(-1, 1, (1,), np.float32)
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._time = 0
        return self._seen(), {}

    def _seen(self) -> dict[str, Any]:
        chance = self.np_random
        return {
            "arm": (100 * chance.standard_normal(3)).astype(np.float32),
            "far": chance.integers(0, 256, (3, 14, 16), np.uint8),
            "gear": int(chance.integers(3)),
            "near": chance.integers(0, 11, (5, 6), np.uint8),
        }

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._time += 1
        reward = float(np.asarray(action).reshape(-1)[0])
        return self._seen(), reward, False, self._time == self._length, {}
