"""An environment as the loop sees it: encoded observations, checked numbers, clear faults."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from resel.errors import BadInputError, EnvironmentFault
from resel.tasks import ActionSpec, ObservationSpec

Env = gymnasium.Env[Any, Any]
EnvFactory = Callable[[], Env]


class Outcome(NamedTuple):
    """What one step gave."""

    observation: NDArray[np.float32]
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class Stage:
    """One environment with its spaces translated."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.observation = ObservationSpec.of(env.observation_space)
        self.action = ActionSpec.of(env.action_space)
        self._steps = 0

    def reset(self, seed: int) -> NDArray[np.float32]:
        """Start an episode; the first observation."""
        self._steps = 0
        try:
            observation, _info = self.env.reset(seed=seed)
        except Exception as error:
            raise EnvironmentFault(
                f"The environment raised {type(error).__name__} in reset(seed={seed}): {error}"
            ) from error
        return self._encode(observation, f"reset(seed={seed})")

    def step(self, action: NDArray[np.float32]) -> Outcome:
        """Take an action given as it is stored."""
        self._steps += 1
        where = f"step {self._steps} of an episode"
        native = self.action.to_env(int(action[0]) if self.action.discrete else action)
        try:
            observation, reward, terminated, truncated, info = self.env.step(native)
        except Exception as error:
            raise EnvironmentFault(
                f"The environment raised {type(error).__name__} at {where}: {error}"
            ) from error
        try:
            value = float(reward)
        except (TypeError, ValueError) as error:
            raise EnvironmentFault(
                f"The environment's reward at {where} is {reward!r}, not a number."
            ) from error
        if not math.isfinite(value):
            raise EnvironmentFault(
                f"The environment's reward at {where} is {value}: it must be finite."
            )
        return Outcome(
            self._encode(observation, where), value, bool(terminated), bool(truncated), info
        )

    def sample(self, rng: np.random.Generator) -> NDArray[np.float32]:
        """A uniformly random action, as it is stored."""
        return np.atleast_1d(np.asarray(self.action.sample(rng), np.float32))

    def close(self) -> None:
        """Release the simulator."""
        self.env.close()

    def _encode(self, observation: Any, where: str) -> NDArray[np.float32]:
        try:
            return self.observation.encode(observation)
        except BadInputError as error:
            raise EnvironmentFault(f"The environment's observation at {where}: {error}") from error
