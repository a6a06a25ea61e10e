"""A learner and made-up trajectories of the right sizes, so that no simulator is needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from resel.config import Config
from resel.data import Batch, ReplayBuffer, Trajectory
from resel.envs import CRITIC
from resel.methods import Learner, build_learner
from resel.networks import Dimensions, Encoder

_CPU = torch.device("cpu")
_WHILE_BELOW = 0.5
"""Seconds spent timing before another cycle is not worth it."""


@dataclass(frozen=True)
class Workload:
    """All that one update needs."""

    learner: Learner
    buffer: ReplayBuffer
    rng: np.random.Generator

    @classmethod
    def build(
        cls,
        config: Config,
        dims: Dimensions,
        length: int,
        episodes: int,
        device: torch.device = _CPU,
    ) -> Workload:
        """A fresh learner and as many episodes of `length` steps."""
        learner = build_learner(config, dims, device)
        return cls(
            learner,
            filled_buffer(dims, length, episodes, learner.learns_from),
            np.random.default_rng(config.training.seed),
        )

    def sample(self) -> Batch:
        """A batch, drawn and laid out as in training."""
        learner = self.learner
        return learner.sampler.draw(self.buffer, self.rng, learner.policy.suitable_rows)

    def cycle(self) -> None:
        """As many updates as bring every part of one."""
        for _ in range(self.learner.updates_to_log):
            self.learner.update(self.sample())

    def seconds_per_update(self, clock: Callable[[], float] = time.perf_counter) -> float:
        """The median of some cycles, after one that was not timed."""
        laps: list[float] = []
        while sum(laps) < _WHILE_BELOW:
            begin = clock()
            self.cycle()
            laps.append(clock() - begin)
        return float(np.median(laps)) / self.learner.updates_to_log

    @property
    def encoders(self) -> list[Encoder]:
        """The recurrent blocks of all networks."""
        networks = (*self.learner.networks.values(), *self.learner.targets.values())
        return [m for network in networks for m in network.modules() if isinstance(m, Encoder)]


def made_up_trajectory(
    dims: Dimensions, length: int, rng: np.random.Generator, told: Sequence[str] = ()
) -> Trajectory:
    """Random numbers in the ranges of real ones, all of task 0; it does not terminate."""
    if dims.discrete:
        actions = rng.integers(dims.action, size=(length, 1)).astype(np.float32)
    else:
        actions = rng.uniform(-1, 1, (length, dims.action)).astype(np.float32)
    return Trajectory(
        rng.standard_normal((length + 1, dims.observation), np.float32),
        actions,
        rng.standard_normal(length, np.float32),
        terminated=False,
        extras={
            name: np.zeros((length + 1, size), np.float32)
            for name, size in _columns(dims, told).items()
        },
    )


def filled_buffer(
    dims: Dimensions, length: int, episodes: int, told: Sequence[str] = ()
) -> ReplayBuffer:
    """A buffer that holds as many episodes of `length` steps."""
    rng = np.random.default_rng(0)
    # Each episode takes a place more than it has steps: twice the room is always enough.
    width, columns = 1 if dims.discrete else dims.action, _columns(dims, told)
    buffer = ReplayBuffer(2 * length * episodes, dims.observation, width, columns)
    for _ in range(episodes):
        buffer.add(made_up_trajectory(dims, length, rng, told))
    return buffer


def _columns(dims: Dimensions, told: Sequence[str]) -> dict[str, int]:
    """What episodes have beside the steps: what a reset tells, and what critics alone read."""
    signal = {CRITIC: dims.privileged} if dims.privileged else {}
    return {**dict.fromkeys(told, 1), **signal}


def batch_steps(config: Config) -> int:
    """Steps that a batch of this config holds, or enough to draw any other kind of batch from."""
    return int(getattr(config.algorithm, "batch_steps", 1000))


def compile_kernels(config: Config, dims: Dimensions) -> None:
    """Run the kernels once with a tiny network: their compilation is nobody's figure."""
    sizes = dict.fromkeys(config.sized("tiny"), 8)
    Workload.build(config.replace(**sizes), dims, length=4, episodes=1).cycle()
