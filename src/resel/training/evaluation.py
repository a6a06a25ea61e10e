"""Measuring a policy: deterministic actions, an environment of its own, fixed seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from resel.data import Trajectory
from resel.envs import AnyEnv
from resel.randomness import stream_seed
from resel.training.actor import Actor
from resel.training.playing import Played, play, play_adapted


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
