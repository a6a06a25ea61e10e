"""Wrappers around every task of ours: misuse is named, and entry points stay in one piece."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec, WrapperSpec
from gymnasium.error import ResetNeeded
from gymnasium.utils import RecordConstructorArgs

from resel.envs import brief
from resel.errors import BadInputError, ConfigError, NoPicturesError


class Strict(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Refuses actions outside the space and steps outside an episode.

    Simulators clip, broadcast or go on silently. Stands outside the time limit, so that a
    truncated episode counts as ended as well.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        self._running = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        start = self.env.reset(seed=seed, options=options)
        self._running = True
        return start

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step with an action of the action space."""
        if not self._running:
            raise ResetNeeded("There is no episode running: call reset() before step().")
        check_action(self.action_space, action)
        outcome = self.env.step(action)
        self._running = not (outcome[2] or outcome[3])
        return outcome


STRICT = WrapperSpec("Strict", "resel.tasks.strict:Strict", {})
"""How Gymnasium's registry asks for `Strict`."""


class Sealed(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The outside of what an entry point builds.

    The wrappers inside are made by the entry point again when the environment is made from its
    spec, so the spec must not list them.
    """

    @property
    def spec(self) -> EnvSpec | None:
        """The spec of the bare environment."""
        return self.unwrapped.spec

    @spec.setter
    def spec(self, value: EnvSpec | None) -> None:
        self.unwrapped.spec = value


def check_action(space: spaces.Space[Any], action: Any) -> None:
    """Raise unless `action` lies in a Box (in any float type) or another space."""
    if not isinstance(space, spaces.Box):
        if not space.contains(action):
            raise BadInputError(f"The action {brief(action)} is not in {space}.")
        return
    try:
        value = np.asarray(action, np.float64)
    except (TypeError, ValueError):
        raise BadInputError(
            f"The action is not an array of numbers: got {brief(action)}, expected {space}."
        ) from None
    if value.shape != space.shape:
        raise BadInputError(f"The action has shape {value.shape}, expected {space.shape}.")
    # Written so that NaN counts as outside.
    if not ((value >= space.low) & (value <= space.high)).all():
        raise BadInputError(
            f"The action {brief(value.tolist())} lies outside its space: "
            f"low {space.low.tolist()}, high {space.high.tolist()}."
        )


def check_render_mode(env: Any, render_mode: str | None) -> None:
    """Raise unless the environment draws in this mode."""
    modes = env.metadata["render_modes"]
    if render_mode is not None and render_mode not in modes:
        if not modes:
            raise NoPicturesError("This environment draws no pictures: render_mode must be None.")
        raise ConfigError(
            f"render_mode={render_mode!r} is not known: use None or one of {', '.join(modes)}."
        )
