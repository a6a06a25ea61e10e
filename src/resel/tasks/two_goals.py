"""A point with two places to go to, one of which pays: which one has to be tried and remembered."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from resel.tasks.plane import plane_picture
from resel.tasks.splits import TaskSplit
from resel.tasks.strict import Sealed, check_render_mode
from resel.tasks.trial import HiddenGoal, Trial

PLACES = np.array([[-0.5, 0.5], [0.5, 0.5]])
RADIUS = 0.3
FASTEST_MOVE = 0.1


class PointEnv(gymnasium.Env[NDArray[np.float64], NDArray[np.float32]]):
    """Position s' = s + action, from (0, 0). It pays nothing by itself."""

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]  # the base leaves ClassVar out
        "render_modes": ["rgb_array"],
        "render_fps": 10,
    }

    def __init__(self, render_mode: str | None = None) -> None:
        check_render_mode(self, render_mode)
        self.render_mode = render_mode
        self.action_space = spaces.Box(-FASTEST_MOVE, FASTEST_MOVE, (2,), np.float32)
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Back to the origin."""
        super().reset(seed=seed)
        self._path = [np.zeros(2)]
        return self._path[-1].copy(), {}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Move."""
        position = self._path[-1] + np.asarray(action, np.float64)
        self._path.append(position)
        return position.copy(), 0.0, False, False, {"position": position.copy()}

    def render(self) -> NDArray[np.uint8] | None:
        """The way of the episode under way and both places, from above."""
        if self.render_mode is None:
            return None
        return plane_picture(self._path, list(PLACES), RADIUS)


def two_goals(
    split: str = "all",
    episodes: int = 2,
    episode_steps: int = 20,
    render_mode: str | None = None,
) -> gymnasium.Env[Any, Any]:
    """Be within 0.3 of (-0.5, 0.5) or of (0.5, 0.5), whichever pays: 1 for each step there."""

    def reward(info: dict[str, Any], action: NDArray[Any], place: float) -> float:
        return float(np.linalg.norm(info["position"] - PLACES[int(place)]) <= RADIUS)

    point, parts = PointEnv(render_mode), TaskSplit(2, 1, split)
    env = HiddenGoal(point, np.array([0.0, 1.0]), (0.0, 1.0), parts, reward)
    return Sealed(Trial(env, episodes, episode_steps))
