"""Priorities of single steps: an array beside the ring, one number for each of its slots."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from resel.data.buffer import ReplayBuffer
from resel.data.trajectory import Floats


class Priorities:
    """How often each stored step is drawn. New steps get the largest priority there is.

    A learner owns it and says when an episode was stored (`add`) and what steps are worth (`set`).
    What the ring does with the episode is looked up when the next steps are drawn.
    """

    def __init__(self, capacity: int) -> None:
        self.values: Floats = np.zeros(ReplayBuffer.slots_of(capacity), np.float32)
        """By slot; 0 where no step is held."""
        self.largest = 1.0
        self._new = 0
        """Episodes stored since the last draw."""
        self._known = -1
        """How many episodes the buffer had been given when it was last looked at."""
        self._end = 0
        """Behind the last slot that held a step then."""

    def add(self) -> None:
        """An episode was stored."""
        self._new += 1

    def draw(self, buffer: ReplayBuffer, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Slots of `count` steps, each drawn in proportion to its priority."""
        if self._new or self._known != buffer.added:
            self._look_at(buffer)
        ends = np.cumsum(self.values[: self._end], dtype=np.float64)
        drawn = np.minimum(rng.random(count) * ends[-1], np.nextafter(ends[-1], 0))
        at: NDArray[np.int64] = np.searchsorted(ends, drawn, side="right")
        return at

    def _look_at(self, buffer: ReplayBuffer) -> None:
        """Forget steps that have left, and rate those that are new."""
        held = buffer.held_steps()
        if len(held) > len(self.values):  # a ring that is larger than was announced
            self.values = np.pad(self.values, (0, len(held) - len(self.values)))
        values = self.values[: len(held)]
        episodes = list(buffer)
        for episode in episodes[max(0, len(episodes) - self._new) :]:
            values[episode.begin : episode.begin + episode.length] = 0
        values[~held] = 0
        values[held & (values == 0)] = self.largest
        self._end = int(np.flatnonzero(held)[-1]) + 1
        self._new, self._known = 0, buffer.added

    def set(self, at: NDArray[np.int64], values: Floats) -> None:
        """Steps in these slots are worth so much, more than 0, from now on."""
        self.values[at] = values
        self.largest = max(self.largest, float(values.max()))

    def look_for_largest(self) -> None:
        """Let the largest be that of the steps held now; before, it could only grow."""
        self.largest = float(self.values.max()) or self.largest

    def state(self) -> dict[str, Tensor]:
        """Everything the next draw depends on."""
        return {
            "priorities": torch.from_numpy(self.values.copy()),
            "largest_priority": torch.tensor(self.largest, dtype=torch.float64),
            "unrated_episodes": torch.tensor(self._new),
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over what `state` gave; a ValueError for what cannot be drawn from."""
        values, largest = tensors["priorities"].cpu().numpy(), float(tensors["largest_priority"])
        if not (np.isfinite(values).all() and values.min() >= 0 and 0 < largest < np.inf):
            raise ValueError("priorities are not positive numbers")
        self.values = values.copy()
        self.largest, self._new, self._known = largest, int(tensors["unrated_episodes"]), -1
