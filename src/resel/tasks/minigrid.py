"""MiniGrid: a memory task in a grid of which 7 x 7 cells are seen, at several sizes.

Chevalier-Boisvert et al. (2023), "Minigrid & Miniworld". Any of its worlds can be made here,
without the text of its mission. The package is imported only when one is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from resel.errors import ConfigError
from resel.tasks.simulators import load
from resel.tasks.small import SETTINGS
from resel.tasks.spec import Needs, TaskSpec
from resel.tasks.strict import Sealed

MODULE_PREFIX = "minigrid:"
"""Names may also say which module registers them."""
_MINIGRID = Needs(extra="minigrid", module="minigrid")
_MEMORY = {"S7": 7, "S9": 9, "S11": 11, "S13": 13, "S13Random": 13, "S17Random": 17}
"""Sizes of the grid, walls included, by how MiniGrid calls them."""
_SUMMARY = "See a key or a ball, walk down the hallway, go to the same thing at its end."
_SOLVED = 0.93
"""95 of 100 episodes: who wastes no step has 0.977 on the smallest grid, and more on others."""
_CELLS, _KINDS = 7 * 7, 11 + 6 + 3
"""What is seen: of each cell which object it is, which colour and which state."""


def tasks() -> Iterator[TaskSpec]:
    """The family, in the order it is listed."""
    for name, size in _MEMORY.items():
        id = f"MiniGrid-Memory{name}-v0"
        yield TaskSpec(
            id=id,
            family="MiniGrid",
            summary=_SUMMARY,
            entry_point="resel.tasks.minigrid:grid_env",
            kwargs={"world": id},
            horizon=5 * size**2,
            observation_size=_CELLS * _KINDS,
            action_size=7,
            settings={**SETTINGS, "steps": 50_000, "eval_episodes": 50},
            hints={"gamma": 0.97, "image_channels": 0},
            needs=_MINIGRID,
            threshold=_SOLVED,
        )


def grid_env(
    world: str, render_mode: str | None = None, one_hot: bool = True, **arguments: Any
) -> gymnasium.Env[Any, Any]:
    """The entry point of the family: a world by the name MiniGrid registers it under.

    Of a cell there is a plane for each object, colour and state; without `one_hot`, three numbers.
    """
    load(_MINIGRID.module, _MINIGRID)  # registers all of them
    wrappers = load("minigrid.wrappers", _MINIGRID)
    spec = gymnasium.registry.get(world.removeprefix(MODULE_PREFIX))
    if spec is None or not str(spec.entry_point).startswith("minigrid."):
        raise ConfigError(
            f"world={world!r} is none of MiniGrid's: give an id such as MiniGrid-DoorKey-5x5-v0."
        )
    env = gymnasium.make(spec, render_mode=render_mode, disable_env_checker=True, **arguments)
    seen = env.unwrapped
    if one_hot:
        seen = wrappers.OneHotPartialObsWrapper(seen)
    return _Cells(wrappers.ImgObsWrapper(seen), one_hot)


class _Cells(Sealed):
    """Declares how high the numbers of cells can be, and tells whether a world was solved."""

    def __init__(self, env: gymnasium.Env[Any, Any], one_hot: bool) -> None:
        super().__init__(env)
        constants = load("minigrid.core.constants", _MINIGRID)
        # Colours and states are fewer than objects.
        highest = 1 if one_hot else max(constants.OBJECT_TO_IDX.values())
        self.observation_space = spaces.Box(0, highest, env.observation_space.shape, np.uint8)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            info = {**info, "success": bool(terminated and float(reward) > 0)}
        return observation, reward, terminated, truncated, info
