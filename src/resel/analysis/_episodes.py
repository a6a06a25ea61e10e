"""Episodes of the deterministic policy, written down and laid out to be read again."""

from __future__ import annotations

from collections.abc import Sequence

from resel.data import Batch, Trajectory, pack_episodes
from resel.envs import AnyEnv
from resel.training import Actor, evaluate


def record_episodes(actor: Actor, stage: AnyEnv, seeds: Sequence[int]) -> list[Trajectory]:
    """One episode of the deterministic policy for each seed."""
    trajectories: list[Trajectory] = []
    evaluate(actor, stage, list(seeds), on_episode=trajectories.append)
    return trajectories


def lay_out(trajectories: Sequence[Trajectory]) -> list[Batch]:
    """Each trajectory on a tape of its own."""
    return [pack_episodes([trajectory]) for trajectory in trajectories]
