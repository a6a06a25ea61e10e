"""One finished episode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from resel.errors import BadInputError

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Trajectory:
    """L steps and the observation after the last of them.

    Actions are stored as the networks see them: Box actions in [-1, 1], Discrete ones as an index.
    """

    observations: Floats  # (L + 1, O)
    actions: Floats  # (L, A)
    rewards: Floats  # (L,)
    terminated: bool
    """The world ended; a truncated episode only stopped being recorded."""

    def __post_init__(self) -> None:
        length = len(self.rewards)
        if length == 0:
            raise BadInputError("A trajectory needs at least one step.")
        if len(self.observations) != length + 1 or len(self.actions) != length:
            raise BadInputError(
                f"A trajectory of {length} rewards needs {length + 1} observations and {length} "
                f"actions, not {len(self.observations)} and {len(self.actions)}."
            )
        for array in (self.observations, self.actions, self.rewards):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.rewards)
