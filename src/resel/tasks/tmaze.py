"""The passive T-maze: a cue at the start decides the right turn many steps later."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from resel.errors import BadInputError, ConfigError
from resel.tasks.masking import UNSEEN

FORWARD, UP, LEFT, DOWN = range(4)
"""The moves; forward is to the right, along the corridor."""

CUE, CORRIDOR, JUNCTION = range(3)
"""The entries of an observation."""


class TMazeEnv(gymnasium.Env[NDArray[np.float32], np.int64]):
    """A corridor of `length` steps to a junction, then one turn: `length + 1` steps in all.

    Observation: [+1 up or -1 down at the first step, else 0; in the corridor; at the junction].
    Reward: -1/length for each corridor step without moving forward, 1 for the cued turn, else 0.
    Only a straight walk reaches the junction in time to turn. `info["success"]` tells whether
    the right turn was taken, `info["unseen"]` the cue, as it was seen at the first step.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]  # the base leaves ClassVar out
        "render_modes": ["rgb_array"],
        "render_fps": 8,
    }

    def __init__(self, length: int = 20, render_mode: str | None = None) -> None:
        if isinstance(length, bool) or not isinstance(length, int) or length < 1:
            raise ConfigError(f"length={length!r} cannot work: use a whole number of at least 1.")
        if render_mode not in (None, "rgb_array"):
            raise ConfigError(f"render_mode={render_mode!r} is not known: use 'rgb_array' or None.")
        self.length = length
        self.render_mode = render_mode
        self.action_space = spaces.Discrete(4)
        self.observation_space = spaces.Box(
            np.array([-1, 0, 0], np.float32), np.array([1, 1, 1], np.float32)
        )
        self._cue = UP
        self._position = 0
        self._time = length + 1  # as after an episode: a reset is due
        self._turn: int | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Back to the start, with a new cue."""
        super().reset(seed=seed)
        self._cue = UP if self.np_random.integers(2) else DOWN
        self._position = self._time = 0
        self._turn = None
        return self._observation(), self._info()

    def step(
        self, action: int | np.integer[Any]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """One move; the episode terminates with the step after the last corridor step."""
        if self._time > self.length:
            raise ResetNeeded("The T-maze has no episode running: call reset() before step().")
        if not self.action_space.contains(action):
            raise BadInputError(f"The T-maze has no move {action!r}: use an integer from 0 to 3.")
        move, reward = int(action), 0.0
        if self._position == self.length:
            self._turn = move
            reward = float(move == self._cue)
        elif move == FORWARD:
            self._position += 1
        else:
            reward = -1.0 / self.length
        self._time += 1
        return self._observation(), reward, self._time > self.length, False, self._info()

    def _info(self) -> dict[str, Any]:
        cue = np.array([1 if self._cue == UP else -1], np.float32)
        return {"success": self._turn == self._cue, UNSEEN: cue}

    def render(self) -> NDArray[np.uint8] | None:
        """The maze from above as (height, width, 3) pixels."""
        if self.render_mode is None:
            return None
        return _picture(self.length, self._position, self._turn, self._cue, self._time)

    def _observation(self) -> NDArray[np.float32]:
        seen = np.zeros(3, np.float32)
        seen[JUNCTION if self._position == self.length else CORRIDOR] = 1.0
        if self._time == 0:
            seen[CUE] = 1.0 if self._cue == UP else -1.0
        return seen


_WALL, _FLOOR, _AGENT, _SIGN = (38, 41, 51), (232, 232, 226), (46, 98, 196), (232, 163, 23)
_GOOD, _BAD = (122, 190, 120), (216, 112, 104)


def _picture(
    length: int, position: int, turn: int | None, cue: int, time: int
) -> NDArray[np.uint8]:
    """Three rows of cells, the corridor in the middle and the arms at its right end."""
    cell = max(4, min(24, 1200 // (length + 1)))
    image = np.full((3 * cell, (length + 1) * cell, 3), _WALL, np.uint8)
    y, x = np.mgrid[0:cell, 0:cell] * 2 + 1 - cell  # doubled offsets from the middle of a cell
    disc = x**2 + y**2 <= (0.7 * cell) ** 2
    triangle = (y >= 2 * abs(x) - 0.7 * cell) & (y <= 0.7 * cell)  # points up

    def at(row: int, column: int) -> NDArray[np.uint8]:
        return image[row * cell : (row + 1) * cell, column * cell : (column + 1) * cell]

    image[cell : 2 * cell] = _FLOOR
    image[:, length * cell :] = _FLOOR
    row = {UP: 0, DOWN: 2}.get(-1 if turn is None else turn, 1)
    if turn is not None:
        at(row, length)[:] = _GOOD if turn == cue else _BAD
    if time == 0:
        at(0 if cue == UP else 2, 0)[triangle if cue == UP else triangle[::-1]] = _SIGN
    at(row, position)[disc] = _AGENT
    return image
