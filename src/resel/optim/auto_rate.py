"""A learning rate of the context encoder that finds itself.

The paper's argument, taken as a rule: a step of the context encoder is carried on by the hidden
state and moves the output more and more along a trajectory, a step of the other layers does not.
So the encoder's rate is steered until a step of the encoder alone and a step of the other layers
alone move the output alike, on average over whole trajectories.

It is one rate for policy and critic, as in the paper, and what they ask for counts alike. Each with
a rate of its own ends far apart: the other layers of a critic learn so fast that its encoder could
learn as fast as they do, which is what makes training unstable, and a policy's hardly learns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import geometric_mean
from typing import Any, NamedTuple

import torch
from torch import Tensor

from resel.optim.amplification import moved
from resel.optim.groups import ParameterGroup, adam_steps

MEASURE_EVERY = 50
"""Updates between two measurements."""
_GAIN = 0.2
"""Share of the way, in logarithms, that one measurement moves the rate: a single one is noisy."""
_FARTHEST = math.log(8.0)
"""A network that asks for more than this factor counts as asking for this."""
_LOWEST, _HIGHEST = 1e-4, 1.0
"""Bounds of the rate in units of the smallest rate of other layers."""
_ROUNDING = 1e-7
"""Movements of the output below this say nothing."""

_START = 0.03
"""Where the rate starts if nobody says, in units of that of the other layers."""


class Steered(NamedTuple):
    """A network whose context encoder learns at an automatic rate."""

    encoder: ParameterGroup
    other: ParameterGroup
    optimizer: torch.optim.Optimizer
    """Of these two groups, in this order."""

    @property
    def lr_other(self) -> float:
        """The rate of the other layers now."""
        return float(self.optimizer.param_groups[1]["lr"])


class AutoRate:
    """Steers the rate that the context encoders of some networks share."""

    def __init__(self, networks: Mapping[str, Steered], start: float | None) -> None:
        self._networks = dict(networks)
        usual = _START * geometric_mean(network.lr_other for network in networks.values())
        self.lr = self._bounded(usual if start is None else start)
        self._variations: dict[str, float] = {}

    def __contains__(self, network: str) -> bool:
        return network in self._networks

    @property
    def lr(self) -> float:
        """The rate now."""
        return self._lr

    @lr.setter
    def lr(self, value: float) -> None:
        self._lr = value
        for network in self._networks.values():
            network.optimizer.param_groups[0]["lr"] = value

    def _bounded(self, lr: float) -> float:
        other = min(network.lr_other for network in self._networks.values())
        return min(max(lr, _LOWEST * other), _HIGHEST * other)

    @torch.no_grad()
    def steer(self, outputs: Mapping[str, Callable[[], Tensor]]) -> None:
        """Measure what the last step of each group does to its network's output (steps, K), and
        move the rate.

        Waits for the device, once in `MEASURE_EVERY` updates.
        """
        found = {
            name: self._measured(network, steps, outputs[name])
            for name, network in self._networks.items()
            if (steps := adam_steps(network.optimizer))  # none before its first step
        }
        if not found:
            return
        wishes = []
        seen = torch.stack(list(found.values())).tolist()
        for name, (encoder, other) in zip(found, seen, strict=True):
            if math.isfinite(encoder + other) and other > _ROUNDING:
                self._variations |= {f"{name}/context_encoder": encoder, f"{name}/other": other}
                wish = math.log(other / max(encoder, _ROUNDING))
                wishes.append(max(-_FARTHEST, min(_FARTHEST, wish)))
        # Who says nothing asks for what there is: the others alone do not decide.
        wish = sum(wishes) / len(self._networks)
        self.lr = self._bounded(self.lr * math.exp(_GAIN * wish))

    def _measured(
        self, network: Steered, steps: Mapping[str, Tensor], output: Callable[[], Tensor]
    ) -> Tensor:
        """How far a step of the encoder alone moves the output, and one of the other layers."""
        before, found = output(), []
        for group, lr in ((network.encoder, self.lr), (network.other, network.lr_other)):
            with moved([group], steps, {group.name: lr}):
                found.append((output() - before).norm(dim=-1).mean())
        return torch.stack(found)

    def metrics(self) -> dict[str, float]:
        """The rate, and how far each group's step last moved the output, once that is known."""
        moved = {f"variation/{name}": value for name, value in self._variations.items()}
        return {"lr_context_encoder": self.lr, **moved}

    def state(self) -> dict[str, Any]:
        """What the next measurement, and the metrics until then, depend on."""
        return {"lr": self.lr, "variations": dict(self._variations)}

    def restore(self, document: Mapping[str, Any]) -> None:
        """Take over what `state` gave; in older checkpoints each network has a rate of its own."""
        document = dict(document)
        if "lr" not in document:
            lr = geometric_mean(float(own["lr"]) for own in document.values())
            document = {"lr": self._bounded(lr), "variations": {}}
        lr = float(document["lr"])
        if not (math.isfinite(lr) and lr > 0):
            raise ValueError(f"an automatic LR_CE of {lr}")
        self.lr = lr
        known = dict(document["variations"])
        self._variations = {str(name): float(value) for name, value in known.items()}
