"""Which rows of a vector environment begin an episode, whatever its autoreset mode."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resel.errors import ConfigError

_MODES = {"NextStep": "next step", "SameStep": "same step", "Disabled": "disabled"}


class AutoresetHelper:
    """Steps a Gymnasium vector environment and says where episodes begin: `starts`.

        play = AutoresetHelper(envs)
        observations, state = play.reset(seed=1), None
        while ...:
            actions, state = agent.predict(observations, state, play.starts, reward=play.rewards)
            observations, rewards, terminated, truncated, infos = play.step(actions)

    - next step, Gymnasium's default: after an end the last observation is seen, and the step that
      follows is no step: it ignores the action and shows the next episode. `real` is False there.
    - same step: the observation after an end is already the next episode's; the last one is in
      `infos["final_obs"]`.
    - disabled: rows at their end are reset here, and it is as with same step.
    """

    def __init__(self, envs: Any, mode: str | None = None) -> None:
        """`mode` is for environments that do not say theirs in `metadata["autoreset_mode"]`."""
        self.envs, self.mode = envs, _mode_of(envs, mode)
        self.starts: NDArray[np.bool_] = np.ones(envs.num_envs, np.bool_)
        """Rows whose observation is the first of an episode: `episode_start` of `predict`."""
        self.real: NDArray[np.bool_] = np.ones(envs.num_envs, np.bool_)
        """Rows whose last step was one of an episode, and not a reset in the place of one."""
        self.rewards: NDArray[np.float64] = np.zeros(envs.num_envs)
        """The rewards of the last step."""
        self._ended = np.zeros(envs.num_envs, np.bool_)

    def reset(self, *, seed: int | list[int] | None = None, options: Any = None) -> Any:
        """Begin episodes in all rows; the observations."""
        observations, _ = self.envs.reset(seed=seed, options=options)
        self.starts, self.real = np.ones_like(self.starts), np.ones_like(self.real)
        self.rewards, self._ended = np.zeros_like(self.rewards), np.zeros_like(self._ended)
        return observations

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """What the environments return, after which `starts` belongs to these observations."""
        before = self._ended
        observations, rewards, *flags, infos = self.envs.step(actions)
        terminated, truncated = (np.array(flag, np.bool_) for flag in flags)  # resets clear theirs
        ended = terminated | truncated
        if self.mode == "next step":
            self.starts, self.real = before, ~before
        else:
            self.starts = ended
        if self.mode == "disabled" and ended.any():
            infos = {**infos, "final_obs": copy.deepcopy(observations)}
            observations, _ = self.envs.reset(options={"reset_mask": ended})
        self._ended, self.rewards = ended, np.asarray(rewards, np.float64)
        return observations, rewards, terminated, truncated, infos


def told_mode(envs: Any) -> str | None:
    """The mode that a vector environment says is its own."""
    told = (getattr(envs, "metadata", None) or {}).get("autoreset_mode")
    return _MODES.get(str(getattr(told, "value", told)))


def _mode_of(envs: Any, asked: str | None) -> str:
    if not isinstance(getattr(envs, "num_envs", None), int):
        raise ConfigError(
            f"AutoresetHelper({envs!r}): it must be a vector environment of Gymnasium, as "
            "gymnasium.make_vec makes one."
        )
    found = told_mode(envs)
    if asked is None and found is not None:
        return found
    if asked is None or asked not in _MODES.values():
        raise ConfigError(
            f"AutoresetHelper(mode={asked!r}): the environments do not say how they reset, so give "
            f"one of {', '.join(map(repr, _MODES.values()))}."
        )
    if found not in (None, asked):
        raise ConfigError(
            f"AutoresetHelper(mode={asked!r}): the environments say that theirs is {found!r}: "
            "leave it out."
        )
    return asked
