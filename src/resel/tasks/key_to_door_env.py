"""Key to door: a key found early opens a door many steps later, with apples in between.

The world of Hung et al. (2019), "Optimizing agent behavior over long time scales by transporting
value", written anew.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from resel.envs import FlatImage
from resel.errors import ConfigError
from resel.tasks.strict import check_render_mode

NORTH, SOUTH, WEST, EAST = range(4)
"""The moves."""
_MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))

EXPLORE, DISTRACTOR, REWARD = range(3)
"""The phases; the first and the last have a fixed number of steps."""
EXPLORE_STEPS, REWARD_STEPS = 15, 10

APPLES = 10
APPLE_REWARD, DOOR_REWARD = 1.0, 5.0
_REGROWTH = 21
"""Steps from picking an apple until it is back."""

_MAPS = (
    "  #######  /  #kkkkk#  /  #kkkkk#  /  ##   ##  /  #+++++#  /  #+++++#  /  #######  ",
    "###########/#a a a a a#/# a a a a #/#a a a a a#/# a a a a #/#a a + a a#/###########",
    "           /   ##d##   /   #   #   /   # + #   /   #   #   /   #####   /           ",
)
_COLOURS = {
    " ": (204, 204, 204),
    "#": (25, 25, 25),
    "d": (134, 206, 235),
    "k": (159, 81, 44),
    "i": (255, 255, 255),
    "a": (140, 178, 0),
    "+": (228, 148, 109),
}
_PALETTE = np.array(list(_COLOURS.values()), np.uint8)  # (codes, colours)
_SHADES = (_PALETTE / 255.0).astype(np.float32)
FLOOR, WALL, DOOR, KEY, INDICATOR, APPLE, AGENT = range(7)
"""What a cell shows, as an index of the palette."""

_VIEW = 2
"""Cells seen in each direction; every map has so many cells of floor around it."""
_GRIDS = [
    np.pad([["".join(_COLOURS).index(mark) for mark in row] for row in rows.split("/")], _VIEW)
    for rows in _MAPS
]  # (11, 15) each, with every place that a key, an apple or the agent may have at first
_INNER = (slice(_VIEW, -_VIEW), slice(_VIEW, -_VIEW))
_ROOMS = [np.where(grid <= DOOR, grid, FLOOR).astype(np.uint8) for grid in _GRIDS]
_INSIDE = np.pad(np.ones_like(_ROOMS[0][_INNER], np.bool_), _VIEW)
_INDICATOR_CELL = (_VIEW, 5 + _VIEW)

Cell = tuple[int, int]


class KeyToDoorEnv(gymnasium.Env[NDArray[np.float32], np.int64]):
    """Three rooms in turn: one with a key, one with apples, one with a door.

    Observation: the 5x5 cells around the agent as (colour, row, column) in [0, 1], flattened.
    Touching the key earns nothing and lights a white cell for one step; an apple earns 1 and is
    back 21 steps later; opening the door with the key earns 5, once. The episode always takes
    all `distractor` + 25 steps and terminates. `info["success"]` tells whether the door is open.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]  # the base leaves ClassVar out
        "render_modes": ["rgb_array"],
        "render_fps": 8,
    }

    def __init__(self, distractor: int = 60, render_mode: str | None = None) -> None:
        if isinstance(distractor, bool) or not isinstance(distractor, int) or distractor < 1:
            raise ConfigError(
                f"distractor={distractor!r} cannot work: use a whole number of at least 1."
            )
        check_render_mode(self, render_mode)
        self.distractor = distractor
        self.render_mode = render_mode
        self.action_space = spaces.Discrete(4)
        side = 2 * _VIEW + 1
        self.observation_space = FlatImage(3, side, side)  # type: ignore[assignment]  # a Box
        self._ends = (EXPLORE_STEPS, EXPLORE_STEPS + distractor)  # of the first two phases

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """A new layout of all rooms, drawn now so that no action changes what comes later."""
        super().reset(seed=seed)
        self._key: Cell = self._pick(_cells(EXPLORE, KEY), 1)[0]
        self._starts: list[Cell] = [
            self._pick(_cells(EXPLORE, AGENT), 1)[0],
            _cells(DISTRACTOR, AGENT)[0],
            _cells(REWARD, AGENT)[0],
        ]
        apples = self._pick(_cells(DISTRACTOR, APPLE), APPLES)
        self._ripe_from = dict.fromkeys(apples, 0)  # the step of the phase at which it is there
        self._time = 0
        self._found = self._opened = self._indicated = False
        self._enter(EXPLORE)
        return self._observation(), {"success": False}

    def step(
        self, action: int | np.integer[Any]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """One move; the last of a phase shows the first view of the next."""
        self._time += 1
        self._phase_time += 1
        self._indicated = False
        self._move(_MOVES[int(action)])
        reward = self._touch()
        terminated = self._time == self._ends[-1] + REWARD_STEPS
        if self._time in self._ends:
            self._enter(self._phase + 1)
        return self._observation(), reward, terminated, False, {"success": self._opened}

    def render(self) -> NDArray[np.uint8] | None:
        """The room from above as (height, width, 3) pixels, bright where the agent sees it."""
        if self.render_mode is None:
            return None
        image = 0.45 * _PALETTE[self._board()]  # (rows, columns, colours)
        image[self._view()] /= 0.45
        return image[_INNER].astype(np.uint8).repeat(32, axis=0).repeat(32, axis=1)

    def _enter(self, phase: int) -> None:
        self._phase, self._phase_time = phase, 0
        self._agent = self._starts[phase]

    def _pick(self, cells: list[Cell], count: int) -> list[Cell]:
        chosen = self.np_random.choice(len(cells), count, replace=False)
        return [cells[i] for i in chosen]

    def _move(self, by: Cell) -> None:
        cell = (self._agent[0] + by[0], self._agent[1] + by[1])
        there = _ROOMS[self._phase][cell]
        if _INSIDE[cell] and there != WALL and (there != DOOR or self._found):
            self._agent = cell

    def _touch(self) -> float:
        """Pick up what lies where the agent stands."""
        if self._phase == EXPLORE and self._agent == self._key and not self._found:
            self._found = self._indicated = True
        # An apple that grows back under the agent is picked with its next step.
        elif self._phase == DISTRACTOR and self._ripe(self._agent) < self._phase_time:
            self._ripe_from[self._agent] = self._phase_time + _REGROWTH
            return APPLE_REWARD
        elif _ROOMS[self._phase][self._agent] == DOOR and not self._opened:
            self._opened = True
            return DOOR_REWARD
        return 0.0

    def _ripe(self, cell: Cell) -> float:
        return self._ripe_from.get(cell, np.inf)

    def _board(self) -> NDArray[np.uint8]:
        """The room with everything in it, as indices of the palette."""
        board = _ROOMS[self._phase].copy()
        if self._phase == EXPLORE and not self._found:
            board[self._key] = KEY
        if self._phase == EXPLORE and self._indicated:
            board[_INDICATOR_CELL] = INDICATOR
        if self._phase == DISTRACTOR:
            for cell, ripe_from in self._ripe_from.items():
                if ripe_from <= self._phase_time:
                    board[cell] = APPLE
        if board[self._agent] != DOOR:  # the door hides who stands in it
            board[self._agent] = AGENT
        return board

    def _view(self) -> tuple[slice, slice]:
        row, column = self._agent
        return slice(row - _VIEW, row + _VIEW + 1), slice(column - _VIEW, column + _VIEW + 1)

    def _observation(self) -> NDArray[np.float32]:
        seen = _SHADES[self._board()[self._view()]]  # (rows, columns, colours)
        return seen.transpose(2, 0, 1).reshape(-1)


def _cells(phase: int, code: int) -> list[Cell]:
    return [(int(row), int(column)) for row, column in np.argwhere(_GRIDS[phase] == code)]
