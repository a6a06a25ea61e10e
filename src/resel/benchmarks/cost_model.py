"""What an update should cost on this machine, by a model of three measured ones.

The time is taken to grow with the number of tensors, each of which some operations are about, with
the products of weights and places of a batch, and for on-policy methods with the steps that are
gone through one after another. That is right within a factor of three; memory, but for that of
attention, within one of two. When updates are due, and what is saved, is known without measuring.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from resel.benchmarks.cost import UpdateCost
from resel.benchmarks.play_cost import PlayCost
from resel.benchmarks.update import sizes_of
from resel.config import Config, SizeName
from resel.data import Schedule
from resel.methods import default_method, get_method, own_methods
from resel.training import Workload, batch_steps

_FLOAT = 4
_MOMENTS = 2
"""Of Adam, beside each weight that is learned."""
_COPIES, _OUTPUTS = 2, 3
"""How often memory holds what is saved, and outputs for the way back."""


@dataclass(frozen=True)
class Work:
    """What an update is made of."""

    tensors: int
    products: float
    """Weights times places of the batch."""
    row: int
    """Steps gone through one after another."""
    outputs: float
    """Numbers that layers give for the batch."""
    saved: int
    schedule: Schedule
    playing: PlayCost
    """Not worked out but measured, which is brief."""


def work_of(config: Config) -> Work:
    """Found by making the networks and drawing a batch: no update is made."""
    dims, length = sizes_of(config)
    episodes = 2 * -(-batch_steps(config) // length)
    workload = Workload.build(config.replace(device="cpu"), dims, length, episodes)
    learner = workload.learner
    batches = [workload.sample().is_first for _ in range(learner.updates_to_log)]
    places = float(np.mean([batch.numel() for batch in batches]))
    learned = [p for network in learner.networks.values() for p in network.parameters()]
    followed = [p for network in learner.targets.values() for p in network.parameters()]
    weights = sum(p.numel() for p in learned)
    held, _document = learner.state()
    now = sum(tensor.nbytes for tensor in (*held.values(), *learner.weights().values()))
    return Work(
        len(learned) + len(followed),
        places * (weights + sum(p.numel() for p in followed)),
        max(batch.shape[1] for batch in batches) if learner.on_policy else 0,
        places * sum(p.numel() for p in learned if p.dim() == 1),
        now + _MOMENTS * _FLOAT * weights,
        learner.schedule,
        PlayCost.measured(learner, length),
    )


@dataclass(frozen=True)
class CostModel:
    """Seconds for each part of the work, and bytes of a process that does none."""

    tensor: float
    product: float
    step: float
    process: float

    def estimate(self, work: Work) -> UpdateCost:
        """An update's cost, marked as an estimate."""
        seconds = self.tensor * work.tensors + self.product * work.products + self.step * work.row
        return UpdateCost(
            seconds,
            int(self.process + _memory(work)),
            work.saved,
            work.schedule,
            work.playing,
            estimated=True,
        )


def measure_model(threads: int, measure: Callable[[Config, int], UpdateCost]) -> CostModel:
    """The default method at two sizes, and an on-policy one."""
    on_policy = next(method.name for method in own_methods() if method.learner.on_policy)
    sizes: tuple[tuple[str, SizeName], ...] = (
        (default_method(), "tiny"),
        (default_method(), "small"),
        (on_policy, "tiny"),
    )
    works, costs = [], []
    for method, size in sizes:
        config = Config.build("", {"method": method, "encoder": get_method(method).encoder})
        config = config.replace(**config.sized(size))
        works.append(work_of(config))
        costs.append(measure(config, threads))
    return _fitted(works, costs)


def _fitted(works: list[Work], costs: list[UpdateCost]) -> CostModel:
    """Through all three; no part of the work takes less than no time."""
    small, large, in_turn = works
    seconds = [cost.seconds for cost in costs]
    product = max(0.0, (seconds[1] - seconds[0]) / (large.products - small.products))
    product = min(product, seconds[0] / small.products)
    tensor = (seconds[0] - product * small.products) / small.tensors
    rest = seconds[2] - tensor * in_turn.tensors - product * in_turn.products
    step = max(0.0, rest) / in_turn.row
    process = min(cost.memory - _memory(work) for cost, work in zip(costs, works, strict=True))
    return CostModel(tensor, product, step, max(0.0, process))


def _memory(work: Work) -> float:
    return _COPIES * work.saved + _OUTPUTS * _FLOAT * work.outputs
