"""A point that has to reach and hold a goal against a wind it cannot see."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from resel.tasks.plane import plane_picture
from resel.tasks.splits import TaskSplit, check_task_seed, tell_task
from resel.tasks.strict import check_render_mode

GOAL = np.array([0.0, 1.0])
GOAL_RADIUS = 0.03
STRONGEST_WIND = 0.08
FASTEST_MOVE = 0.1


class WindEnv(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """Position s' = s + action + wind, from (0, 0); reward 1 within 0.03 of (0, 1), else 0.

    The observation is the position. The wind is constant within an episode and stands in `info`
    only. All `tasks` winds come from `task_seed`; the first `train_tasks` are for training.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]  # the base leaves ClassVar out
        "render_modes": ["rgb_array"],
        "render_fps": 10,
    }

    def __init__(
        self,
        split: str = "train",
        tasks: int = 60,
        train_tasks: int = 40,
        task_seed: int = 1337,
        render_mode: str | None = None,
    ) -> None:
        check_render_mode(self, render_mode)
        self.render_mode = render_mode
        self.split = TaskSplit(tasks, train_tasks, split)
        check_task_seed(task_seed)
        # The legacy generator gives the same winds as the earlier work with this seed.
        self.winds = np.random.RandomState(task_seed).uniform(
            -STRONGEST_WIND, STRONGEST_WIND, (tasks, 2)
        )
        self.action_space = spaces.Box(-FASTEST_MOVE, FASTEST_MOVE, (2,), np.float32)
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Back to the origin, in another wind; `options={"task": 3}` chooses which."""
        super().reset(seed=seed)
        self._task = self.split.draw(self.np_random, seed, options)
        self._path = [np.zeros(2)]
        return self._path[-1].astype(np.float32), self._info()

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Move and drift. The end comes by the time limit around the environment."""
        position = self._path[-1] + np.asarray(action, np.float64) + self.winds[self._task]
        self._path.append(position)
        reached = np.linalg.norm(position - GOAL) <= GOAL_RADIUS
        return position.astype(np.float32), float(reached), False, False, self._info()

    def render(self) -> NDArray[np.uint8] | None:
        """The path so far and the goal, from above, as (height, width, 3) pixels."""
        return None if self.render_mode is None else plane_picture(self._path, [GOAL], GOAL_RADIUS)

    def _info(self) -> dict[str, Any]:
        wind = self.winds[self._task].copy()
        return {**tell_task(self._task, wind, -STRONGEST_WIND, STRONGEST_WIND), "wind": wind}
