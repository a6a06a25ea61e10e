"""Measuring a policy: deterministic actions, an environment of its own, fixed seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from resel.envs import AnyEnv
from resel.randomness import stream_seed
from resel.training.actor import Actor


@dataclass(frozen=True)
class Evaluation:
    """Returns and lengths of some episodes."""

    returns: list[float]
    lengths: list[int]
    successes: list[bool] | None
    """From `info["success"]` at the end of each episode; None if the task does not tell."""

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
) -> Evaluation:
    """Play one episode for each seed; `on_step` is called after each reset and step."""
    returns: list[float] = []
    lengths: list[int] = []
    successes: list[bool] = []
    for seed in seeds:
        observation, reward, total, length = env.reset(seed), 0.0, 0.0, 0
        if on_step is not None:
            on_step()
        state = actor.initial_state(1)
        ended = False
        while not ended:
            policy, state = actor.observe(
                observation[None], np.asarray([reward], np.float32), state
            )
            action = actor.choose(policy, None)
            state = actor.remember(state, action)
            outcome = env.step(action[0])
            if on_step is not None:
                on_step()
            observation, reward = outcome.observation, outcome.reward
            total += reward
            length += 1
            ended = outcome.terminated or outcome.truncated
        returns.append(total)
        lengths.append(length)
        if outcome.success is not None:
            successes.append(outcome.success)
    return Evaluation(returns, lengths, successes if len(successes) == len(seeds) else None)
