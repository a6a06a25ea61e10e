"""An episode under way: what was seen and done, and how it can be begun again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from resel.data import TRIAL, Trajectory, constant_columns
from resel.envs import CRITIC, AnyEnv, Encoded, StepResult, Told
from resel.training.trials import Place


@dataclass
class Episode:
    """All of it so far."""

    seed: int
    observations: list[Encoded]
    told: Told
    place: Place | None = None
    """Where it stands in its trial, for methods that adapt to a task."""
    actions: list[NDArray[np.float32]] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    signals: list[NDArray[np.float32]] = field(default_factory=list)
    """What the critic alone is told, after the reset and each step; nothing where it is not."""
    is_awaited: bool = False

    def __post_init__(self) -> None:
        self.told = dict(self.told)
        if (first := self.told.pop(CRITIC, None)) is not None:
            self.signals.append(first)

    @classmethod
    def begin(cls, env: AnyEnv, seed: int, place: Place | None) -> Self:
        if place is None:
            return cls(seed, [env.reset(seed)], env.told)
        first = env.reset(seed, place.task)
        place = place.known(env.told)
        return cls(seed, [first], {**env.told, TRIAL: place.column}, place)

    @classmethod
    def awaited(cls, env: AnyEnv) -> Self:
        """In the place of one that begins with the next step of all environments."""
        spec = env.observation
        return cls(0, [np.zeros(spec.stored_size, spec.dtype)], env.told, is_awaited=True)

    @property
    def last_reward(self) -> float:
        return self.rewards[-1] if self.rewards else 0.0

    def record(self, action: NDArray[np.float32], outcome: StepResult) -> None:
        self.actions.append(action)
        self.rewards.append(outcome.reward)
        self.observations.append(outcome.observation)
        if outcome.critic is not None:
            self.signals.append(outcome.critic)

    def finish(self, terminated: bool) -> Trajectory:
        columns = constant_columns(self.told, len(self.rewards))
        columns |= {CRITIC: np.stack(self.signals)} if self.signals else {}
        return Trajectory(
            np.stack(self.observations),
            np.stack(self.actions),
            np.asarray(self.rewards, np.float32),
            terminated,
            columns,
        )

    def marks(self) -> dict[str, NDArray[Any]]:
        """What shows that an episode played again is the same one."""
        now = {**self.told, **({CRITIC: self.signals[-1]} if self.signals else {})}
        told = {f"told.{name}": values for name, values in now.items()}
        return {"last": self.observations[-1], **told}
