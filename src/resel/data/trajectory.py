"""One finished episode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from resel.errors import BadInputError

Floats = NDArray[np.float32]
Observations = NDArray[np.float32] | NDArray[np.uint8]
"""As they are stored: uint8 where they hold images of uint8, see `ObservationSpec`."""


@dataclass(frozen=True)
class Trajectory:
    """L steps and the observation after the last of them.

    Actions are stored as the networks see them: Box actions in [-1, 1], Discrete ones as an index.
    """

    observations: Observations  # (L + 1, O)
    actions: Floats  # (L, A)
    rewards: Floats  # (L,)
    terminated: bool
    """The world ended; a truncated episode only stopped being recorded."""
    extras: Mapping[str, Floats] = field(default_factory=dict)
    """Named columns beside these, (L + 1, size) each."""

    def __post_init__(self) -> None:
        length = len(self.rewards)
        if length == 0:
            raise BadInputError("A trajectory needs at least one step.")
        if len(self.observations) != length + 1 or len(self.actions) != length:
            raise BadInputError(
                f"A trajectory of {length} rewards needs {length + 1} observations and {length} "
                f"actions, not {len(self.observations)} and {len(self.actions)}."
            )
        for name, column in self.extras.items():
            if column.ndim != 2 or len(column) != length + 1:
                raise BadInputError(
                    f"The column {name!r} of a trajectory of {length} steps has shape "
                    f"{column.shape}: give a row for each of its {length + 1} observations."
                )
            if not np.isfinite(column).all():
                raise BadInputError(f"The column {name!r} of a trajectory holds NaN or infinity.")
        object.__setattr__(self, "extras", MappingProxyType(dict(self.extras)))
        for array in (self.observations, self.actions, self.rewards, *self.extras.values()):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.rewards)


def constant_columns(values: Mapping[str, Floats], length: int) -> dict[str, Floats]:
    """Columns of `length` steps in which every row holds the same (size,) values."""
    return {
        name: np.broadcast_to(value, (length + 1, len(value))) for name, value in values.items()
    }
