"""Are the loss and the gradients of a step finite? Decided on the device, read later by the host.

Nothing here waits for the device while learning goes on: the verdict on a step is a tensor that the
optimiser heeds by itself, and the numbers behind it wait in a ring until somebody reads them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

READ_EVERY = 100
"""Updates after which the record must have been read, or its oldest steps are forgotten."""

_STEPS_PER_UPDATE = 3  # critic, policy, temperature
_NUMBERS = 3  # the loss and the norms of at most two groups


class StepCheck(NamedTuple):
    """What was seen in one step of an optimiser."""

    update: int
    """Counted from 1."""
    network: str
    """`critic`, `policy` or `alpha`."""
    loss: float
    norms: Mapping[str, float]
    """L2 norm of the gradient of each parameter group."""

    @property
    def finite(self) -> bool:
        """Whether the step was taken: one that is not finite leaves everything as it was."""
        return math.isfinite(self.loss) and all(map(math.isfinite, self.norms.values()))


class StepRecord:
    """Keeps the numbers of the last steps on the device until they are read."""

    def __init__(self, device: torch.device) -> None:
        capacity = READ_EVERY * _STEPS_PER_UPDATE
        self._values = torch.zeros(capacity, _NUMBERS, device=device)
        self._unread: deque[tuple[int, int, str, Sequence[str]]] = deque(maxlen=capacity)
        self._slot = 0

    def add(self, update: int, network: str, loss: Tensor, norms: Mapping[str, Tensor]) -> Tensor:
        """Note a step that is about to be taken; 1 if it must not be, else 0, on the device."""
        numbers = torch.stack([loss, *norms.values()])
        self._values[self._slot, : len(numbers)] = numbers
        self._unread.append((self._slot, update, network, list(norms)))
        self._slot = (self._slot + 1) % len(self._values)
        return (~numbers.isfinite().all()).float()

    def read(self) -> list[StepCheck]:
        """The steps since the last reading, oldest first; waits for the device."""
        if not self._unread:
            return []
        values = self._values.tolist()
        steps = [
            StepCheck(
                update, network, values[slot][0], dict(zip(names, values[slot][1:], strict=False))
            )
            for slot, update, network, names in self._unread
        ]
        self._unread.clear()
        return steps

    def clear(self) -> None:
        """Forget what was not read."""
        self._unread.clear()
