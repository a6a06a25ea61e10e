"""Partial observability by leaving out entries of an observation vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from resel.errors import ConfigError, UnsupportedSpaceError
from resel.tasks.strict import Sealed

UNSEEN = "unseen"
"""The entry of `info` that holds what is left out."""


class KeepIndices(gymnasium.ObservationWrapper[Any, Any, Any], RecordConstructorArgs):
    """Shows only the entries `keep` of a 1-D Box observation, in that order, values untouched.

    The others stand in `info["unseen"]` at every reset and step.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], keep: Sequence[int]) -> None:
        base = env.observation_space
        if not isinstance(base, spaces.Box) or len(base.shape) != 1:
            raise UnsupportedSpaceError(
                f"Entries can be picked from a 1-D Box observation only, not from {base}: "
                "flatten it first with gymnasium.wrappers.FlattenObservation."
            )
        indices = _checked(keep, base.shape[0])
        # Recorded so that the environment's spec can rebuild it.
        RecordConstructorArgs.__init__(self, keep=indices)
        gymnasium.ObservationWrapper.__init__(self, env)
        self._indices = np.array(indices)
        self._others = np.setdiff1d(np.arange(base.shape[0]), self._indices)
        self.observation_space = spaces.Box(
            base.low[self._indices], base.high[self._indices], dtype=base.dtype.type
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self.observation(observation), self._tell(observation, info)

    def step(self, action: Any) -> tuple[NDArray[Any], Any, bool, bool, dict[str, Any]]:
        """A step of which a part is seen."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        told = self._tell(observation, info)
        return self.observation(observation), reward, terminated, truncated, told

    def observation(self, observation: NDArray[Any]) -> NDArray[Any]:
        """The kept entries, as a new array."""
        return np.take(observation, self._indices)

    def _tell(self, observation: NDArray[Any], info: dict[str, Any]) -> dict[str, Any]:
        return {**info, UNSEEN: np.take(observation, self._others)} if self._others.size else info


def mask(env: gymnasium.Env[Any, Any], keep: Sequence[int]) -> gymnasium.Env[Any, Any]:
    """Make a 1-D Box environment partially observable: only the entries `keep` are seen."""
    return KeepIndices(env, keep)


def masked(
    base: str, keep: Sequence[int], render_mode: str | None = None
) -> gymnasium.Env[Any, Any]:
    """The entry point of masked tasks: `base` without its time limit, with `keep` seen."""
    # The limit is left out here because Gymnasium adds the registered one outside.
    return Sealed(KeepIndices(gymnasium.make(base, render_mode=render_mode).unwrapped, keep))


def _checked(keep: Sequence[int], size: int) -> list[int]:
    indices = list(keep)
    if not indices:
        raise ConfigError("keep=[] leaves nothing to observe: name at least one entry.")
    for index in indices:
        if isinstance(index, bool) or not isinstance(index, int | np.integer):
            raise ConfigError(f"keep={indices} holds {index!r}, which is not an integer.")
        if not 0 <= index < size:
            raise ConfigError(
                f"keep={indices} holds {index}, but the entries go from 0 to {size - 1}."
            )
    if len(set(indices)) < len(indices):
        raise ConfigError(f"keep={indices} names an entry twice: list each once.")
    return [int(index) for index in indices]
