"""Are the loss and the gradients of a step finite? Decided on the device, read later by the host.

Nothing here waits for the device while learning goes on: the verdict on a step is a tensor that the
optimiser heeds by itself, and the numbers behind it wait in a ring until somebody reads them. As
little as possible is computed at once, because it is computed at every step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from resel.optim.groups import ParameterGroup, gradients

READ_EVERY = 100
"""Updates after which the record must have been read, or its oldest steps are forgotten."""


class StepCheck(NamedTuple):
    """What was seen in one step of an optimiser."""

    update: int
    """Counted from 1."""
    network: str
    """By its name in the learner; the temperature goes with `policy`."""
    finite: bool
    """Whether the step was taken: one that is not finite leaves everything as it was."""
    norms: Mapping[str, float]
    """L2 norm of the gradient of each parameter group."""


class _Ring:
    """The numbers of the last steps of one network: losses, then the norm of each group."""

    def __init__(self, first: Tensor, losses: int, groups: Sequence[str]) -> None:
        size = losses + len(groups)
        self.values = torch.zeros(READ_EVERY, size, dtype=first.dtype, device=first.device)
        self.rows = self.values.unbind()
        self.zeros = torch.zeros_like(self.rows[0])
        self.unread: deque[int] = deque(maxlen=READ_EVERY)
        self._losses, self._groups = losses, groups

    def read(self, network: str) -> list[StepCheck]:
        values = self.values.double().cpu().numpy()[[u % READ_EVERY for u in self.unread]]
        finite = np.isfinite(values).all(1).tolist()
        norms = values[:, self._losses :].tolist()
        steps = [
            StepCheck(update, network, good, dict(zip(self._groups, own, strict=True)))
            for update, good, own in zip(self.unread, finite, norms, strict=True)
        ]
        self.unread.clear()
        return steps


class StepRecord:
    """Keeps the numbers of the last steps on the device until they are read."""

    def __init__(self) -> None:
        self._rings: dict[str, _Ring] = {}

    def add(
        self,
        update: int,
        network: str,
        losses: Sequence[Tensor],
        groups: Sequence[ParameterGroup],
    ) -> Tensor:
        """Note the step that is about to be taken; 1 if it must not be, else 0, on the device."""
        ring = self._rings.get(network)
        if ring is None:
            names = [group.name for group in groups]
            ring = self._rings[network] = _Ring(losses[0], len(losses), names)
        row = ring.rows[update % READ_EVERY]
        torch.stack([*losses, *torch._foreach_norm(gradients(groups))], out=row)
        ring.unread.append(update)
        # 0 if all are finite, else NaN: cheaper than to look at each.
        return torch.dot(row, ring.zeros).nan_to_num_(nan=1.0).float()

    def read(self) -> list[StepCheck]:
        """The steps since the last reading, oldest first; waits for the device."""
        steps = [step for name, ring in self._rings.items() for step in ring.read(name)]
        return sorted(steps, key=lambda step: step.update)

    def clear(self) -> None:
        """Forget what was not read."""
        for ring in self._rings.values():
            ring.unread.clear()
