"""What playing costs on this machine beside the simulator, measured briefly: for plans."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from resel.methods import Learner, Phase
from resel.training import Actor

_WARMUPS, _WHILE_BELOW = 3, 0.02
"""Steps that are not timed, as the first ones compile kernels, and seconds of those that are."""


@dataclass(frozen=True)
class PlayCost:
    """Steps of one environment, and what evaluations play besides."""

    acting: float = 0.0
    """Seconds that acting takes of a step of training, with all its environments together."""
    judging: float = 0.0
    """The same of a step of an evaluation, which has one environment."""
    adapting: tuple[Phase, ...] = ()
    """What an evaluation plays before each episode that counts."""

    @classmethod
    def measured(cls, learner: Learner, length: int) -> PlayCost:
        """That of a learner, in episodes of so many steps."""
        adaptation, num_envs = learner.adaptation, learner.config.training.num_envs
        return cls(
            _seconds(Actor(learner, explores=True), num_envs, learner, length) / num_envs,
            _seconds(Actor(learner), 1, learner, length),
            () if adaptation is None else adaptation.evaluation,
        )

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> PlayCost:
        """From what `to_json` gave."""
        phases = tuple(Phase(**phase) for phase in document["adapting"])
        return cls(float(document["acting"]), float(document["judging"]), phases)


def _seconds(actor: Actor, rows: int, learner: Learner, length: int) -> float:
    """Of a step of so many environments together."""
    # A busy machine takes away time, but one thread's own is the same.
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    rng = np.random.default_rng(0)
    observation = rng.standard_normal((rows, learner.dims.observation), np.float32)
    reward = np.zeros(rows, np.float32)
    laps: list[float] = []
    while sum(laps[_WARMUPS:]) < _WHILE_BELOW:
        if len(laps) % length == 0:
            state = actor.initial_state(rows)
        began = clock()
        policy, state = actor.observe(observation, reward, state)
        state = actor.remember(state, actor.choose(policy, None))
        laps.append(clock() - began)
    return float(np.median(laps[_WARMUPS:]))
