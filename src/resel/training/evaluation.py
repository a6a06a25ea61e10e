"""Measuring a policy: deterministic actions, an environment of its own, fixed seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from resel.config import TrainingConfig
from resel.data import Trajectory
from resel.envs import AnyEnv, Restarts
from resel.errors import EnvironmentFault
from resel.randomness import stream_seed
from resel.training.actor import Actor
from resel.training.playing import Played, play, play_adapted
from resel.training.score import final_evaluations, learning_since
from resel.training.train_log import TrainLog
from resel.training.validation import check_parts, flag, maybe, whole


@dataclass(frozen=True)
class Evaluation:
    """Returns and lengths of some episodes."""

    returns: list[float]
    lengths: list[int]
    successes: list[bool] | None
    """From `info["success"]` at the end of each episode; None if the task does not tell."""
    adaptation_steps: int | None = None
    """Steps of all episodes before those that count; None for a method that does not adapt."""
    inner: list[list[float]] = field(default_factory=list)
    """Of trials of several episodes: the return of each of these, trial by trial; else nothing."""

    @property
    def return_mean(self) -> float:
        return float(np.mean(self.returns))

    @property
    def return_std(self) -> float:
        return float(np.std(self.returns))

    @property
    def length_mean(self) -> float:
        return float(np.mean(self.lengths))

    @property
    def inner_means(self) -> dict[str, float]:
        """Mean returns of the first, second, ... episode of a trial, by name.

        An episode that was not reached counts as 0.
        """
        count = max(map(len, self.inner), default=0)
        trials = [[*trial, *[0.0] * (count - len(trial))] for trial in self.inner]
        return {
            f"return_episode_{k + 1}": float(np.mean([trial[k] for trial in trials]))
            for k in range(count)
        }

    @property
    def success_rate(self) -> float | None:
        return None if self.successes is None else float(np.mean(self.successes))


def evaluation_seeds(seed: int, episodes: int) -> list[int]:
    """The same episodes for every evaluation of a run, by seeds that follow each other."""
    first = int(stream_seed(seed, "evaluation").generate_state(1)[0]) >> 1
    return list(range(first, first + episodes))


def evaluate(
    actor: Actor,
    env: AnyEnv,
    seeds: list[int],
    *,
    on_step: Callable[[], None] | None = None,
    on_episode: Callable[[Trajectory], None] | None = None,
) -> Evaluation:
    """Play one episode that counts for each seed, after those that a method adapts in.

    `on_step` is called after each reset and step, and `on_episode` after each episode that counts.
    """
    played: list[Played] = []
    adaptation_steps = 0
    for seed in seeds:
        if actor.adaptation is None:
            played.append(play(actor, env, seed, on_step=on_step))
        else:
            counted, steps = play_adapted(actor, actor.adaptation, env, seed, on_step)
            played.append(counted)
            adaptation_steps += steps
        if on_episode is not None:
            on_episode(played[-1].trajectory)
    successes = [one.success for one in played if one.success is not None]
    return Evaluation(
        [one.total for one in played],
        [len(one.trajectory) for one in played],
        successes if len(successes) == len(seeds) else None,
        None if actor.adaptation is None else adaptation_steps,
        [one.parts for one in played if one.parts],
    )


class FinalScore(NamedTuple):
    """What a run has come to."""

    mean: float | None
    std: float | None
    evaluations: int
    """How many it is the mean of."""


class Evaluator:
    """Owns the evaluations of a run and the environment they are made in, if there is one."""

    def __init__(
        self, actor: Actor, env: AnyEnv | None, settings: TrainingConfig, restarts: Restarts
    ) -> None:
        self.env = env
        self.history: list[tuple[int, float, float]] = []
        """Step, mean return and its standard deviation of each."""
        self.learning_since: int | None = None
        """The step of the first evaluation after an update."""
        self.success_rate: float | None = None
        self.due = settings.eval_every > 0
        self._actor, self._settings, self._restarts = actor, settings, restarts

    def evaluate(
        self, step: int, updates: int, log: TrainLog, episodes: int | None = None
    ) -> Evaluation | None:
        """Measure the deterministic policy; None without an environment to do it in."""
        if self.env is None:
            self.due = False
            return None
        seeds = evaluation_seeds(self._settings.seed, episodes or self._settings.eval_episodes)
        while True:
            try:
                result = evaluate(self._actor, self.env, seeds)
                break
            except EnvironmentFault as fault:
                self._restarts.recover(self.env, fault)
        self.due = False
        self.history.append((step, result.return_mean, result.return_std))
        if self.learning_since is None and updates:
            self.learning_since = step
        self.success_rate = result.success_rate
        values: dict[str, float] = {
            "return_mean": result.return_mean,
            "return_std": result.return_std,
            "length_mean": result.length_mean,
            "updates": updates,
            **result.inner_means,
        }
        if result.success_rate is not None:
            values["success_rate"] = result.success_rate
        if result.adaptation_steps is not None:
            values["adaptation_steps"] = result.adaptation_steps
        log.write("eval", step, values)
        return result

    def final_score(self) -> FinalScore:
        """Mean over the last evaluations, and the mean deviation inside them."""
        last = final_evaluations(self.history, self.learning_since)
        if not last:
            return FinalScore(None, None, 0)
        mean, std = np.mean([e[1:] for e in last], axis=0)
        return FinalScore(float(mean), float(std), len(last))

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All evaluations, and whether one is due."""
        history = np.array(self.history, np.float64).reshape(-1, 3)
        return {"evaluations": torch.from_numpy(history)}, {
            "success_rate": self.success_rate,
            "due": self.due,
            "learning_since": self.learning_since,
        }

    def restore(self, tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> None:
        """Take over what `state` gave."""
        check_parts(tensors, {"evaluations": torch.zeros(0, 3, dtype=torch.float64)})
        success_rate, due = maybe(document, "success_rate"), flag(document, "due")
        self.history = [(int(s), m, d) for s, m, d in tensors["evaluations"].tolist()]
        if "learning_since" not in document:  # an older checkpoint
            self.learning_since = learning_since((step, None) for step, _, _ in self.history)
        elif document["learning_since"] is None:
            self.learning_since = None
        else:
            self.learning_since = whole(document, "learning_since")
        self.success_rate, self.due = success_rate, due
