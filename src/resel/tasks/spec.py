"""What the package knows about a task before making it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Needs:
    """An optional package: the extra of `resel` that brings it, and the import that proves it."""

    extra: str
    module: str


@dataclass(frozen=True)
class TaskSpec:
    """One task: where its environment is made, its sizes, and what it says to every method."""

    id: str
    """Without the `resel/` prefix."""
    family: str
    summary: str
    """One line."""
    entry_point: str
    """`module:callable`, imported only when the environment is made."""
    horizon: int
    """Steps of the longest episode."""
    observation_size: int
    action_size: int
    """Box: numbers per action. Discrete: how many actions there are."""
    settings: Mapping[str, Any]
    """What the task says to every method: `steps`, how it is evaluated, room for its data."""
    hints: Mapping[str, Any] = field(default_factory=dict)
    """Settings that suit the task with any method that has them: discount, scales."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the entry point."""
    evaluation_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that differ when the policy is evaluated."""
    ends_itself: bool = False
    """The environment terminates at the horizon; otherwise a time limit truncates there."""
    needs: Needs | None = None
    """The optional package without which the environment cannot be made."""

    critic_observations: str | None = None
    """What it tells in training and hides from the policy, as the setting of that name has it."""
    threshold: float | None = None
    """The return that counts as solved; None where nobody has said so."""

    @property
    def steps(self) -> int:
        """Environment steps of a training run."""
        return int(self.settings["steps"])

    @property
    def gym_id(self) -> str:
        """The name under which Gymnasium knows the task."""
        return f"resel/{self.id}"


def usual_gamma(horizon: int) -> float:
    """A discount that looks a fifth of an episode ahead, of one between 100 and 500 steps."""
    return round(1 - 5 / min(max(horizon, 100), 500), 3)
