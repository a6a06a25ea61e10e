"""What an update costs on this machine, measured briefly: for plans, not for comparisons."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from resel._process import prepare_process
from resel.benchmarks._memory import peak_memory
from resel.benchmarks.update import sizes_of
from resel.config import Config
from resel.data import PerStep, Schedule
from resel.methods import Learner, Phase
from resel.training import Actor, Workload, batch_steps, compile_kernels
from resel.training.threads import width_of

_WARMUPS, _WHILE_BELOW = 3, 0.05
"""Steps of acting that are not timed, and seconds of those that are."""


@dataclass(frozen=True)
class UpdateCost:
    """One update of a config on one of this machine's threads or more, and what a run holds."""

    seconds: float
    memory: int
    """Bytes resident while updating, the interpreter and its libraries included."""
    saved: int
    """Bytes of weights and optimisers in a checkpoint."""
    schedule: Schedule = field(default=PerStep(1.0))
    """When updates are due."""
    acting: float = 0.0
    """Seconds of acting for an environment step of training, without the simulator."""
    judging: float = 0.0
    """The same for a step of an evaluation, in one environment."""
    adapting: tuple[Phase, ...] = ()
    """What an evaluation plays before each episode that counts."""


def measure_cost(config: Config, threads: int) -> UpdateCost:
    """Time a few updates with made-up trajectories of the task's sizes and horizon."""
    prepare_process(threads, width_of(config))
    dims, length = sizes_of(config)
    compile_kernels(config, dims)
    per_batch = -(-batch_steps(config) // length)
    workload = Workload.build(config.replace(device="cpu"), dims, length, 2 * per_batch)
    with peak_memory() as memory:
        workload.cycle()
    # A busy machine takes away time, but one thread's own is the same.
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    seconds, learner = workload.seconds_per_update(clock), workload.learner
    tensors, _document = learner.state()
    held = [*tensors.values(), *learner.weights().values()]
    adaptation = learner.adaptation
    return UpdateCost(
        seconds,
        memory.total,
        sum(tensor.nbytes for tensor in held),
        learner.schedule,
        _acting(learner, config.training.num_envs, length, clock, explores=True),
        _acting(learner, 1, length, clock, explores=False),
        () if adaptation is None else adaptation.evaluation,
    )


def _acting(
    learner: Learner, rows: int, length: int, clock: Callable[[], float], *, explores: bool
) -> float:
    """Seconds of a step of one of so many environments, in episodes of that length."""
    actor = Actor(learner, explores=explores)
    rng = np.random.default_rng(0)
    observation = rng.standard_normal((rows, learner.dims.observation), np.float32)
    reward = np.zeros(rows, np.float32)
    chance = torch.Generator().manual_seed(0) if explores else None
    laps: list[float] = []
    while sum(laps[_WARMUPS:]) < _WHILE_BELOW:  # the first steps compile kernels
        if len(laps) % length == 0:
            state = actor.initial_state(rows)
        began = clock()
        policy, state = actor.observe(observation, reward, state)
        state = actor.remember(state, actor.choose(policy, chance))
        laps.append(clock() - began)
    return float(np.median(laps[_WARMUPS:])) / rows
