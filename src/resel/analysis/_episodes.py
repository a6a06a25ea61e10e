"""Episodes of the deterministic policy, written down and laid out to be read again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from resel.data import Batch, ReplayBuffer, Trajectory, constant_columns, pack
from resel.envs import AnyEnv, StepResult
from resel.training import Actor, evaluate


def record_episodes(actor: Actor, stage: AnyEnv, seeds: Sequence[int]) -> list[Trajectory]:
    """One episode of the deterministic policy for each seed."""
    recorder = _Recorder(stage)
    evaluate(actor, recorder, list(seeds))
    return recorder.trajectories


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


class _Recorder(AnyEnv):
    """Passes everything on to a stage and keeps the episodes."""

    def __init__(self, stage: AnyEnv) -> None:
        self._stage, self.name = stage, stage.name
        self.observation, self.action = stage.observation, stage.action
        self.trajectories: list[Trajectory] = []

    def reset(self, seed: int) -> NDArray[np.float32]:
        first = self._stage.reset(seed)
        self.told, self.columns = self._stage.told, self._stage.columns
        self._observations = [first]
        self._actions: list[NDArray[np.float32]] = []
        self._rewards: list[float] = []
        return first

    def send(self, action: NDArray[np.float32]) -> None:
        self._actions.append(action)
        self._stage.send(action)

    def receive(self) -> StepResult:
        outcome = self._stage.receive()
        self._observations.append(outcome.observation)
        self._rewards.append(outcome.reward)
        if outcome.terminated or outcome.truncated:
            self.trajectories.append(
                Trajectory(
                    np.stack(self._observations),
                    np.stack(self._actions),
                    np.asarray(self._rewards, np.float32),
                    outcome.terminated,
                    constant_columns(self.told, len(self._rewards)),
                )
            )
        return outcome

    @property
    def can_rebuild(self) -> bool:
        return self._stage.can_rebuild

    def rebuild(self) -> None:
        self._stage.rebuild()

    def close(self) -> None:
        self._stage.close()
