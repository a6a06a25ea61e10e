"""Episodes of the deterministic policy, written down and laid out to be read again."""

from __future__ import annotations

from collections.abc import Sequence

from resel.data import Batch, ReplayBuffer, Trajectory, pack
from resel.envs import AnyEnv
from resel.training import Actor, evaluate


def record_episodes(actor: Actor, stage: AnyEnv, seeds: Sequence[int]) -> list[Trajectory]:
    """One episode of the deterministic policy for each seed."""
    trajectories: list[Trajectory] = []
    evaluate(actor, stage, list(seeds), on_episode=trajectories.append)
    return trajectories


def lay_out(trajectories: Sequence[Trajectory]) -> list[Batch]:
    """Each trajectory on a tape of its own."""
    first = trajectories[0]
    buffer = ReplayBuffer(
        sum(len(t) + 1 for t in trajectories),
        first.observations.shape[1],
        first.actions.shape[1],
        {name: column.shape[1] for name, column in first.extras.items()},
    )
    for trajectory in trajectories:
        buffer.add(trajectory)
    return [pack(buffer, [piece]) for piece in buffer]
