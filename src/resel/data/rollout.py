"""The last steps of all environments, for methods that learn from what they just did.

A rollout is `length` steps of each environment. Episodes may go on from one rollout to the next:
then a row begins with the last step of the rollout before, which does not count, and with the
memory from before that step, so that everything a network reads is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from resel.data.packing import Batch
from resel.data.trajectory import Observations


@dataclass(frozen=True)
class Taken:
    """One step of all environments."""

    observation: Observations  # (rows, O), before the step
    action: NDArray[np.float32]  # (rows, A), as stored
    reward: NDArray[np.float32]  # (rows,)
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    after: Observations
    """The observation after the step, also where an episode ended with it. (rows, O)"""
    first: NDArray[np.bool_]
    """Whether it is the first step of an episode."""
    happened: NDArray[np.bool_]
    """Not where an environment failed, and its episode was dropped."""
    hidden: tuple[Tensor, ...]
    """The memory before the step; each begins with the rows."""


class Rollout:
    """Room for a rollout and the step before it, as tensors of fixed shapes."""

    def __init__(
        self,
        rows: int,
        length: int,
        observation: int,
        action: int,
        hidden: Sequence[Tensor],
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """`dtype` is that of observations."""
        slots = (rows, length + 1)  # the first is the step before
        self._length = length
        self._numbers = {
            "observation": torch.zeros(*slots, observation, dtype=dtype),
            "action": torch.zeros(*slots, action),
            "reward": torch.zeros(slots),
            "after": torch.zeros(*slots, observation, dtype=dtype),
        }
        names = ("terminated", "truncated", "first", "happened")
        self._flags = {name: torch.zeros(slots, dtype=torch.bool) for name in names}
        self._first_hidden = [part.detach().clone() for part in hidden]
        self._last_hidden = [part.detach().clone() for part in hidden]
        self._filled = torch.zeros((), dtype=torch.int64)
        self._begun = torch.zeros((), dtype=torch.bool)
        """Whether there is a step before."""

    @property
    def full(self) -> bool:
        """Whether all its steps are there."""
        return int(self._filled) == self._length

    def add(self, taken: Taken) -> None:
        """Write down a step of all environments; a full rollout makes way for the next."""
        if self.full:
            self._turn()
        self._filled += 1
        at = int(self._filled)
        for name, column in (*self._numbers.items(), *self._flags.items()):
            column[:, at] = torch.from_numpy(np.asarray(getattr(taken, name)))
        if at == 1 and not bool(self._begun):
            for kept, part in zip(self._first_hidden, taken.hidden, strict=True):
                kept.copy_(part)
        for kept, part in zip(self._last_hidden, taken.hidden, strict=True):
            kept.copy_(part)

    def _turn(self) -> None:
        """Keep the last step as the one before the next rollout."""
        for column in (*self._numbers.values(), *self._flags.values()):
            column[:, 0] = column[:, self._length].clone()
        for first, last in zip(self._first_hidden, self._last_hidden, strict=True):
            first.copy_(last)
        self._filled.zero_()
        self._begun.fill_(True)

    def counted(self, name: str) -> NDArray[Any]:
        """A column of the steps of this rollout, (rows, steps, ...)."""
        column = self._numbers[name] if name in self._numbers else self._flags[name]
        return column[:, 1 : int(self._filled) + 1].numpy()

    def cut(self, rows: NDArray[np.bool_]) -> None:
        """Truncate the episodes of these rows behind their last step: they are not gone on with."""
        last = int(self._filled)
        if last > 0:
            goes_on = ~self._flags["terminated"][:, last]
            self._flags["truncated"][:, last] |= torch.from_numpy(rows) & goes_on

    def batch(self) -> Batch:
        """A row for each environment; what was truncated is told in the column `truncated`."""
        rows = [self._slots(row) for row in range(len(self._flags["first"]))]
        length = max(len(row) for row in rows)
        filling = [[(0, False, False)] * (length - len(row)) for row in rows]
        laid_out = [row + rest for row, rest in zip(rows, filling, strict=True)]
        step, after, used = torch.tensor(laid_out).unbind(-1)  # (rows, length) each
        after, used = after.bool(), used.bool()
        acted = used & ~after

        def column(name: str, where: Tensor) -> Tensor:
            held = self._numbers[name] if name in self._numbers else self._flags[name].float()
            found = held[torch.arange(len(rows))[:, None], step]
            return found * where.view(*where.shape, *[1] * (found.dim() - 2))

        mask = column("happened", acted).bool() & (step > 0)
        return Batch(
            column("observation", acted) + column("after", after),
            column("action", acted),
            column("reward", acted),
            column("terminated", acted),
            column("first", acted).bool() | ~used,  # padding is all starts: it carries nothing
            mask,
            steps=int(mask.sum()),
            padding=int((~used).sum()),
            extras={"truncated": column("truncated", acted)[..., None]},
            state=tuple(self._first_hidden),
        )

    def _slots(self, row: int) -> list[tuple[int, bool, bool]]:
        """Steps in their order, and the observations behind the last one of an episode.

        Each as the step, whether the observation behind it is meant, and True.
        """
        found = []
        over = (self._flags["terminated"] | self._flags["truncated"])[row].tolist()
        last = int(self._filled)
        for step in range(0 if bool(self._begun) else 1, last + 1):
            found.append((step, False, True))
            if over[step] or step == last:
                found.append((step, True, True))
        return found

    def state(self) -> dict[str, Tensor]:
        """Everything it holds; names have no dot."""
        hidden = {
            f"{when}_hidden_{i}": part
            for when, parts in (("first", self._first_hidden), ("last", self._last_hidden))
            for i, part in enumerate(parts)
        }
        counts = {"filled": self._filled, "begun": self._begun}
        return {
            f"rollout_{name}": tensor
            for name, tensor in {**self._numbers, **self._flags, **hidden, **counts}.items()
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over what `state` gave."""
        for name, tensor in self.state().items():
            tensor.copy_(tensors[name])
        if not 0 <= int(self._filled) <= self._length:
            raise ValueError(f"a rollout of {self._length} steps cannot hold {int(self._filled)}")
