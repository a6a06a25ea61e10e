"""The setting of methods whose critic can be told what their policy never sees."""

from __future__ import annotations

from dataclasses import dataclass

from resel.envs import OF_FUNCTION, OF_TASK, CriticSignal


@dataclass(frozen=True)
class CriticObservations:
    """What the critic reads beside the history."""

    critic_observations: str | None = None
    """What the critic alone reads at each step, beside the history: entries of `info` (hidden), of
    a Dict observation (obs:velocity, which the policy then does not see), several with commas;
    `task` takes what a task of ours names. In Python also a function of the environment."""

    def __post_init__(self) -> None:
        if self.critic_observations not in (None, OF_TASK, OF_FUNCTION):
            CriticSignal.of(self.critic_observations)
