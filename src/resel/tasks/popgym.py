"""POPGym: small worlds that each ask for memory in another way, at three levels.

Morad et al. (2023), "POPGym: Benchmarking Partially Observable Reinforcement Learning". The package
is imported only when one of its worlds is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import gymnasium

from resel.tasks.simulators import load
from resel.tasks.small import SETTINGS
from resel.tasks.spec import Needs, TaskSpec, usual_gamma
from resel.tasks.strict import Sealed, check_render_mode

MODULE_PREFIX = "popgym.envs:"
"""Names may also say which module registers them."""
LABYRINTHS = "popgym-Labyrinth"
"""How the names of the worlds begin that need more than POPGym, and are not ours."""
_POPGYM = Needs(extra="popgym", module="popgym.envs")
_CERTAIN = ("RepeatFirst", "RepeatPrevious", "PositionOnlyCartPole")
"""Worlds in which the largest return, 1, is certain to be possible."""
_SOLVED = 0.99
_LEVELS = ("Easy", "Medium", "Hard")


class _World(NamedTuple):
    """What is known of a world; tuples hold a number for each level."""

    name: str
    summary: str
    observation_sizes: tuple[int, int, int]
    action_sizes: tuple[int, int, int]
    horizons: tuple[int, int, int]
    ends_itself: bool = False
    moves: bool = False
    """Control: what is done now is felt later."""


_SUITS = (4, 4, 4)
_TWO = (2, 2, 2)
_ONE = (1, 1, 1)
_WORLDS = (
    _World(
        "RepeatFirst",
        "Name the suit of the first card at every step.",
        *(_SUITS, _SUITS, (51, 415, 831)),
        ends_itself=True,
    ),
    _World(
        "RepeatPrevious",
        "Name the suit of the card a fixed number of steps ago.",
        *(_SUITS, _SUITS, (51, 103, 155)),
        ends_itself=True,
    ),
    _World(
        "Autoencode",
        "Watch a deck of cards, then name their suits from the last to the first.",
        *((6, 6, 6), _SUITS, (103, 207, 311)),
        ends_itself=True,
    ),
    _World(
        "CountRecall",
        "Tell how often the card in question was seen.",
        *((4, 8, 26), (27, 27, 17), (51, 103, 207)),
        ends_itself=True,
    ),
    _World(
        "PositionOnlyCartPole",
        "Balance a pole on a cart seeing only the positions.",
        *(_TWO, _TWO, (200, 400, 600)),
        moves=True,
    ),
    _World(
        "VelocityOnlyCartpole",
        "Balance a pole on a cart seeing only the velocities.",
        *(_TWO, _TWO, (200, 400, 600)),
        moves=True,
    ),
    _World(
        "PositionOnlyPendulum",
        "Swing up a pendulum seeing only the angle.",
        *(_TWO, _ONE, (200, 150, 100)),
        moves=True,
    ),
    _World(
        "NoisyPositionOnlyCartPole",
        "Balance a pole on a cart seeing only the positions, with noise.",
        *(_TWO, _TWO, (200, 200, 200)),
        moves=True,
    ),
    _World(
        "NoisyPositionOnlyPendulum",
        "Swing up a pendulum seeing only the angle, with noise.",
        *(_TWO, _ONE, (200, 200, 200)),
        moves=True,
    ),
    _World(
        "MultiarmedBandit",
        "Find out which arm pays best, and pull it.",
        *(_TWO, (10, 20, 30), (200, 400, 600)),
    ),
    _World(
        "HigherLower",
        "Tell whether the next card is higher or lower by counting those that are gone.",
        *((13, 13, 13), _TWO, (51, 103, 155)),
        ends_itself=True,
    ),
    _World(
        "Battleship",
        "Sink ships on a board that is not seen, only hits and misses.",
        *(_TWO, (64, 100, 144), (64, 100, 144)),
    ),
    _World(
        "Concentration",
        "Find pairs among cards that are turned face down again.",
        *((156, 312, 728), (52, 104, 52), (104, 208, 104)),
    ),
    _World(
        "MineSweeper",
        "Uncover a board without mines, seeing one number at a time.",
        *((3, 7, 10), (16, 36, 64), (14, 30, 54)),
    ),
)


def tasks() -> Iterator[TaskSpec]:
    """The family, in the order it is listed."""
    for i, level in enumerate(_LEVELS):
        for world in _WORLDS:
            id = f"popgym-{world.name}{level}-v0"
            yield TaskSpec(
                id=id,
                family="POPGym",
                summary=world.summary,
                entry_point="resel.tasks.popgym:popgym_env",
                kwargs={"world": id},
                horizon=world.horizons[i],
                ends_itself=world.ends_itself,
                observation_size=world.observation_sizes[i],
                action_size=world.action_sizes[i],
                settings={**SETTINGS, "steps": 50_000},
                # Returns lie in [-1, 1], so a step earns about 1 / horizon: here 0.2.
                hints={"gamma": 0.95, "reward_scale": world.horizons[i] / 5}
                | (_moving(world.horizons[i]) if world.moves else {}),
                needs=_POPGYM,
                threshold=_SOLVED if world.name in _CERTAIN else None,
            )


def _moving(horizon: int) -> dict[str, Any]:
    return {"gamma": usual_gamma(horizon), "normalize_observations": True}


def popgym_env(world: str, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """The entry point of the family: a world by the name POPGym registers it under."""
    load(_POPGYM.module, _POPGYM)  # registers all of them
    env = gymnasium.make(world, disable_env_checker=True).unwrapped
    check_render_mode(env, render_mode)
    env.render_mode = render_mode  # its constructors take none
    return _CopiedInfos(env)


class _CopiedInfos(Sealed):
    """Tells copies of what some worlds go on writing to."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, deepcopy(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        *outcome, info = self.env.step(action)
        return *outcome, deepcopy(info)


def about_labyrinths(name: str) -> str:
    """Why a labyrinth cannot be made."""
    return (
        f"{name!r} is not among our tasks: POPGym's labyrinths need the package mazelib, and set "
        "the seed of the global random generators at every reset. Install mazelib and write "
        f"{MODULE_PREFIX}{name} to use one all the same."
    )
