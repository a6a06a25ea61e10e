"""Unfinished episodes of a checkpoint, played again from their seeds and actions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from resel.envs import AnyEnv, Restarts
from resel.errors import EnvironmentFault
from resel.training.episode import Episode
from resel.training.trials import Place

Actions = NDArray[np.float32]
"""Of one episode, (steps, A)."""


def replayed(
    envs: Sequence[AnyEnv],
    seeds: Sequence[int],
    actions: Sequence[Actions],
    places: Sequence[Place | None],
    restarts: Restarts,
) -> list[Episode | None]:
    """The episode of each environment; None for one that cannot be played to its last action."""
    match envs[0].replay:
        case "alone":
            rows = zip(envs, seeds, actions, places, strict=True)
            return [_alone(*row, restarts) for row in rows]
        case "together":
            return _together(envs, seeds, actions)
        case "never":
            for env in envs:
                env.abandon()
            return [None] * len(envs)


def _alone(
    env: AnyEnv, seed: int, actions: Actions, place: Place | None, restarts: Restarts
) -> Episode | None:
    try:
        episode = Episode.begin(env, seed, place)
        for action in actions:
            outcome = env.step(action)
            if outcome.terminated or outcome.truncated:
                return None
            episode.record(action, outcome)
    except EnvironmentFault as fault:
        restarts.recover(env, fault)
        return None
    return episode


def _together(
    envs: Sequence[AnyEnv], seeds: Sequence[int], actions: Sequence[Actions]
) -> list[Episode | None]:
    """Each begins so late that all come to their last action at the same time.

    Until then an environment plays what nobody looks at. A fault is one of all, and none of them
    can be made anew.
    """
    longest = max(map(len, actions))
    starts = [longest - len(own) for own in actions]
    episodes: list[Episode | None] = [None] * len(envs)
    idle = np.zeros(envs[0].action.stored_size, np.float32)
    for env in envs:
        env.abandon()
    for env, seed in zip(envs, seeds, strict=True):
        env.reset(seed)
    for moment in range(longest + 1):
        for i, env in enumerate(envs):
            if moment == starts[i]:
                episodes[i] = Episode.begin(env, seeds[i], None)
        if moment == longest:
            break
        played = [
            own[moment - start] if moment >= start else idle
            for own, start in zip(actions, starts, strict=True)
        ]
        for env, action in zip(envs, played, strict=True):
            env.send(action)
        for i, outcome in enumerate([env.receive() for env in envs]):
            episode = episodes[i]
            if outcome.terminated or outcome.truncated:
                episodes[i] = None
                envs[i].reset(seeds[i])
            elif episode is not None:
                episode.record(played[i], outcome)
    return episodes
