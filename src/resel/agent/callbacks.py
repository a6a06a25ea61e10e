"""Ready callbacks for `learn`, to be used alone or together in a list.

evaluate = EvaluateEvery(2_000, episodes=20)
agent.learn(50_000, callback=[evaluate, SaveBest("best", of=evaluate), StopAtReturn(-200)])
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resel.errors import ConfigError
from resel.training import (
    HELD_EVALUATIONS,
    Ending,
    TrainProgress,
    ending_by,
    is_held,
    may_be_held,
    reached,
)

if TYPE_CHECKING:
    from resel.agent._agent import Agent

History = Sequence[tuple[int, float, float]]
"""Step, mean return and its standard deviation of each evaluation."""


@dataclass(frozen=True)
class LearnProgress(TrainProgress):
    """What callbacks of `learn` are given after every step: where it stands, and the agent."""

    agent: Agent = field(kw_only=True, repr=False)


LearnCallback = Callable[[LearnProgress], bool | None]
"""Called after every step; returning False ends the training."""


@dataclass(frozen=True)
class SeenBy:
    """A callback of `learn` as one of the loop, which knows no agent."""

    agent: Agent
    callback: LearnCallback

    def __call__(self, progress: TrainProgress) -> bool | None:
        return self.callback(LearnProgress(**vars(progress), agent=self.agent))

    def awaits_evaluation(self, history: History) -> bool:
        """Whether learning has to wait for the next evaluation; yes where nothing is said."""
        own = getattr(self.callback, "awaits_evaluation", None)
        return own is None or bool(own(history))

    @property
    def ending(self) -> Ending:
        """Why it ends a training."""
        return ending_by(self.callback)


@dataclass
class EvaluateEvery:
    """Measure the deterministic policy every so many steps, besides the loop's own evaluations.

    `env_kwargs` are arguments in which the task is to differ from the training. Learning goes on as
    it would have without, unless the agent has been given its one environment.
    """

    steps: int
    episodes: int = 10
    env_kwargs: Mapping[str, Any] | None = None
    history: list[tuple[int, float, float]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        _check_count(self, "steps", "episodes")

    def __call__(self, progress: LearnProgress) -> None:
        if _is_due(progress, self.steps):
            mean, std = progress.agent.evaluate(self.episodes, env_kwargs=self.env_kwargs)
            self.history.append((progress.step, mean, std))

    def awaits_evaluation(self, history: History) -> bool:
        """No: it makes its own."""
        return False


@dataclass
class StopAtReturn:
    """End the training once so many evaluations in a row have reached a mean return.

    They are the loop's own (`eval_every`), or those of an `EvaluateEvery`.
    """

    mean_return: float
    evaluations: int = HELD_EVALUATIONS
    of: EvaluateEvery | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.mean_return):
            raise ConfigError(f"StopAtReturn({self.mean_return}): it must be a finite number.")
        _check_count(self, "evaluations")

    def __call__(self, progress: LearnProgress) -> bool:
        history = _history(self.of, progress)
        return not is_held(self.mean_return, history, self.evaluations)

    def awaits_evaluation(self, history: History) -> bool:
        """Where it may be the last one."""
        return self.of is None and may_be_held(self.mean_return, history, self.evaluations)

    @property
    def ending(self) -> Ending:
        """Why it ends a training."""
        return reached(self.mean_return, self.evaluations)


def asked_return(callbacks: Iterable[LearnCallback]) -> float | None:
    """The highest return at which callbacks end a training, if any does."""
    wanted = [own.mean_return for own in callbacks if isinstance(own, StopAtReturn)]
    return max(wanted, default=None)


@dataclass
class SaveBest:
    """Save the agent whenever an evaluation is the best so far; the one at step 0 does not count.

    Evaluations are the loop's own (`eval_every`), or those of an `EvaluateEvery`.
    """

    path: str | os.PathLike[str]
    of: EvaluateEvery | None = None
    _seen: int | None = field(default=None, init=False, repr=False)

    def __call__(self, progress: LearnProgress) -> None:
        history = _history(self.of, progress)
        if self._seen is None:  # what a run that goes on brings along was saved then
            self._seen = sum(step < progress.step for step, _, _ in history)
        if len(history) == self._seen:  # as after most steps
            return
        new, self._seen = len(history) > self._seen, len(history)
        counted = [mean for step, mean, _ in history if step > 0]
        if new and counted and history[-1][0] > 0 and history[-1][1] >= max(counted):
            progress.agent.save(self.path)

    def awaits_evaluation(self, history: History) -> bool:
        """It saves the agent that was evaluated, which has to be there still."""
        return self.of is None


@dataclass
class CheckpointEvery:
    """Save the agent every so many steps, as FOLDER/step-000012000; `load` takes each of them.

    A training that is to go on exactly after a crash is a run: `learn(..., run_dir=...)`.
    """

    steps: int
    folder: str | os.PathLike[str]

    def __post_init__(self) -> None:
        _check_count(self, "steps")

    def __call__(self, progress: LearnProgress) -> None:
        if _is_due(progress, self.steps):
            progress.agent.save(Path(self.folder, f"step-{progress.step:09d}"))

    def awaits_evaluation(self, history: History) -> bool:
        """No: it does not look at them."""
        return False


def _check_count(callback: object, *names: str) -> None:
    for name in names:
        value = getattr(callback, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(
                f"{type(callback).__name__}({name}={value!r}): it must be a whole number, at "
                "least 1."
            )


def _is_due(progress: LearnProgress, every: int) -> bool:
    """Whether the last step of the environments has come to, or past, a multiple."""
    before = progress.step - progress.agent.config.training.num_envs
    return progress.step // every > before // every


def _history(of: EvaluateEvery | None, progress: LearnProgress) -> History:
    """Not a copy: it is looked at after every step."""
    return progress.agent.evaluated if of is None else of.history
