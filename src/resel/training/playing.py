"""One episode of a policy that is judged, and for a method that adapts those before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from resel.data import TASK, Trajectory, constant_columns
from resel.envs import CRITIC, AnyEnv
from resel.methods import Adaptation, Phase
from resel.randomness import draw_seed
from resel.training.actor import Actor, PolicyState

_WHOLE = Phase(episodes=1)


class Played(NamedTuple):
    """An episode."""

    trajectory: Trajectory
    total: float
    """Its return."""
    success: bool | None
    """What `info["success"]` said at its end; None if it said nothing."""
    parts: list[float]
    """Of a trial of several episodes, the return of each; else nothing."""


def play(
    actor: Actor,
    env: AnyEnv,
    seed: int,
    task: int | None = None,
    state: PolicyState | None = None,
    *,
    phase: Phase = _WHOLE,
    before: int = 0,
    sampling: torch.Generator | None = None,
    on_step: Callable[[], None] | None = None,
) -> Played:
    """An episode, of this task if one is given, from this state if it is not the usual one.

    It ends where the phase does, after so many steps `before`. Actions are the most likely ones, or
    sampled. `on_step` is called after the reset and each step.
    """
    observation = env.reset(seed) if task is None else env.reset(seed, task)
    if on_step is not None:
        on_step()
    observations, actions, rewards = [observation], [], []
    state = state or actor.initial_state(1)
    reward, total, ended = 0.0, 0.0, False
    parts: list[float] = []
    while not ended:
        policy, state = actor.observe(observation[None], np.asarray([reward], np.float32), state)
        action = actor.choose(policy, sampling)
        state = actor.remember(state, action)
        outcome = env.step(action[0])
        if on_step is not None:
            on_step()
        observation, reward = outcome.observation, outcome.reward
        observations.append(observation)
        actions.append(action[0])
        rewards.append(reward)
        total += reward
        if outcome.episode is not None:
            parts += [0.0] * (outcome.episode + 1 - len(parts))
            parts[outcome.episode] += reward
        ended = outcome.terminated or outcome.truncated
        ended = ended or phase.cuts(len(rewards), before + len(rewards))
    trajectory = Trajectory(
        np.stack(observations),
        np.stack(actions),
        np.asarray(rewards, np.float32),
        outcome.terminated,
        constant_columns({n: v for n, v in env.told.items() if n != CRITIC}, len(rewards)),
    )
    return Played(trajectory, total, outcome.success, parts)


def play_adapted(
    actor: Actor,
    adaptation: Adaptation,
    env: AnyEnv,
    seed: int,
    on_step: Callable[[], None] | None = None,
) -> tuple[Played, int]:
    """The episode that counts, in the task that the seed leads to, and the steps before it."""
    rng = np.random.default_rng(seed)
    chance = torch.Generator(actor.device).manual_seed(draw_seed(rng))
    task: int | None = None
    earlier: list[Trajectory] = []
    for phase in adaptation.evaluation:
        own: list[Trajectory] = []
        steps = 0
        while not phase.over(len(own), steps):
            one = play(
                actor,
                env,
                seed if task is None else draw_seed(rng),
                task,
                actor.started(earlier, chance),
                phase=phase,
                before=steps,
                sampling=chance if phase.sampled else None,
            )
            if task is None:
                actor.check_told(env)
                task = int(env.told[TASK][0])
            own.append(one.trajectory)
            steps += len(one.trajectory)
        earlier += own
    counted = play(
        actor, env, draw_seed(rng), task, actor.started(earlier, chance), on_step=on_step
    )
    return counted, sum(map(len, earlier))
