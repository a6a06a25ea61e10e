"""A learning rate of the context encoder that finds itself.

The paper's argument, taken as a rule: a step of the context encoder is carried on by the hidden
state and moves the output more and more along a trajectory, a step of the other layers does not.
So the encoder's rate is steered until a step of the encoder alone and a step of the other layers
alone move the output alike, on average over whole trajectories.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from resel.optim.amplification import moved
from resel.optim.groups import ParameterGroup, adam_steps

MEASURE_EVERY = 50
"""Updates between two measurements."""
_GAIN = 0.2
"""Share of the way, in logarithms, that one measurement moves the rate: a single one is noisy."""
_FARTHEST = math.log(8.0)
"""A measurement that asks for more than this factor counts as this."""
_LOWEST, _HIGHEST = 1e-4, 1.0
"""Bounds of the rate in units of that of the other layers."""
_ROUNDING = 1e-7
"""Movements of the output below this say nothing."""

START = 0.03
"""Where the rate starts if nobody says, in units of that of the other layers."""


class AutoRate:
    """Steers the first of two groups of one network, which an optimiser of their own updates."""

    def __init__(
        self,
        groups: Sequence[ParameterGroup],
        optimizer: torch.optim.Optimizer,
        start: float | None,
    ) -> None:
        self._encoder, self._other = groups
        self._optimizer = optimizer
        self.lr = self._bounded(START * self._lr_other if start is None else start)
        self._variations: dict[str, float] = {}

    @property
    def lr(self) -> float:
        """The rate now."""
        return float(self._optimizer.param_groups[0]["lr"])

    @lr.setter
    def lr(self, value: float) -> None:
        self._optimizer.param_groups[0]["lr"] = value

    @property
    def _lr_other(self) -> float:
        return float(self._optimizer.param_groups[1]["lr"])

    def _bounded(self, lr: float) -> float:
        return min(max(lr, _LOWEST * self._lr_other), _HIGHEST * self._lr_other)

    @torch.no_grad()
    def steer(self, outputs: Callable[[], Tensor]) -> None:
        """Measure what the last step of each group does to `outputs` (steps, K), and move the rate.

        Waits for the device, once in `MEASURE_EVERY` updates.
        """
        steps = adam_steps(self._optimizer)
        if not steps:
            return
        before = outputs()
        found = []
        for group, lr in ((self._encoder, self.lr), (self._other, self._lr_other)):
            with moved([group], steps, {group.name: lr}):
                found.append((outputs() - before).norm(dim=-1).mean())
        encoder, other = torch.stack(found).tolist()
        if not (math.isfinite(encoder + other) and other > _ROUNDING):
            return
        self._variations = {self._encoder.name: encoder, self._other.name: other}
        wish = max(-_FARTHEST, min(_FARTHEST, math.log(other / max(encoder, _ROUNDING))))
        self.lr = self._bounded(self.lr * math.exp(_GAIN * wish))

    def metrics(self, network: str) -> dict[str, float]:
        """The rate, and how far each group's step last moved the output, once that is known."""
        moved = {f"variation/{network}/{name}": v for name, v in self._variations.items()}
        return {f"lr_context_encoder/{network}": self.lr, **moved}

    def state(self) -> dict[str, Any]:
        """What the next measurement, and the metrics until then, depend on."""
        return {"lr": self.lr, "variations": self._variations}

    def restore(self, document: Mapping[str, Any]) -> None:
        """Take over what `state` gave; older checkpoints have no variations."""
        lr = float(document["lr"])
        if not (math.isfinite(lr) and lr > 0):
            raise ValueError(f"an automatic LR_CE of {lr}")
        self.lr = lr
        known = dict(document.get("variations", {}))
        self._variations = {str(name): float(value) for name, value in known.items()}
