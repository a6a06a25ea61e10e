"""What an update costs on this machine, measured briefly: for plans, not for comparisons."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import torch

from resel._process import prepare_process
from resel.benchmarks._memory import peak_memory
from resel.benchmarks.play_cost import PlayCost
from resel.benchmarks.update import sizes_of
from resel.config import Config
from resel.data import PerStep, Schedule
from resel.training import Workload, batch_steps, compile_kernels
from resel.training.threads import width_of


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
    playing: PlayCost = field(default=PlayCost())
    """What acting costs, and evaluations play."""
    estimated: bool = False
    """Whether it was worked out, or measured with other code."""


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
    alone = torch.get_num_threads() == 1
    seconds = workload.seconds_per_update(time.process_time if alone else time.perf_counter)
    learner = workload.learner
    tensors, _document = learner.state()
    held = [*tensors.values(), *learner.weights().values()]
    return UpdateCost(
        seconds,
        memory.total,
        sum(tensor.nbytes for tensor in held),
        learner.schedule,
        PlayCost.measured(learner, length),
    )
