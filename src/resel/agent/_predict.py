"""`Agent.predict`: observations in, actions in the environment's own units out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from resel.envs import AnyEnv
from resel.errors import BadInputError
from resel.training import Actor, PolicyState


def predict(
    actor: Actor,
    env: AnyEnv,
    sampling: torch.Generator | None,
    observation: Any,
    state: PolicyState | None,
    episode_start: Any,
    reward: Any,
) -> tuple[Any, PolicyState]:
    """The action for an observation or a batch, sampled with a generator, else the mode."""
    batched = env.observation.is_batch(observation)
    rows = len(observation) if batched else 1
    if rows == 0:
        raise BadInputError("predict got a batch without observations: give at least one.")
    encode = env.observation
    encoded = (
        encode.encode_batch(observation, rows) if batched else encode.encode(observation)[None]
    )
    if state is not None and not isinstance(state, PolicyState):
        raise BadInputError(
            f"predict got {type(state).__name__} as state: pass what the last call returned, "
            "or None to start an episode."
        )
    starts = _row_flags(episode_start, rows)
    if state is None:
        state = actor.initial_state(rows)
        starts = np.ones(rows, np.bool_)
    elif not actor.fits(state):
        raise BadInputError(
            "predict got the state of an agent with other sizes or another encoder: pass what "
            "the last call of this agent returned, or None to start an episode."
        )
    if state.rows != rows:
        raise BadInputError(
            f"predict got {rows} observations and a state of {state.rows} rows: pass the "
            "state that the last call for these environments returned, or None."
        )
    policy, state = actor.observe(encoded, _last_reward(reward, starts, actor), state.reset(starts))
    chosen = actor.choose(policy, sampling)
    state = actor.remember(state, chosen)
    native = [env.action.to_env(int(a[0]) if env.action.discrete else a) for a in chosen]
    return (np.stack(native) if batched else native[0]), state


def _last_reward(reward: Any, starts: NDArray[np.bool_], actor: Actor) -> NDArray[np.float32]:
    if reward is None:
        if actor.reads_reward and not starts.all():
            raise BadInputError(
                "This agent was trained with the last reward as input: pass it to "
                "predict(..., reward=...) after the first step of an episode."
            )
        return np.zeros(len(starts), np.float32)
    given = np.asarray(reward, np.float32).reshape(-1)
    if given.shape != starts.shape or not np.isfinite(given).all():
        raise BadInputError(
            f"reward={reward!r} must be {len(starts)} finite number(s), one per observation."
        )
    return np.where(starts, np.float32(0), given)


def _row_flags(episode_start: Any, rows: int) -> NDArray[np.bool_]:
    if episode_start is None:
        return np.zeros(rows, np.bool_)
    flags = np.asarray(episode_start, np.bool_).reshape(-1)
    if len(flags) != rows:
        raise BadInputError(
            f"episode_start has {len(flags)} entries for {rows} observation(s): give one for each."
        )
    return flags
