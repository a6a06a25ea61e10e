"""Memory of whole episodes: a ring of float32 in which each observation is stored once.

An episode of L steps takes L + 1 consecutive places, the last of which holds only o_L. When there
is no room, the oldest whole episodes leave.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from resel.errors import BadInputError, ConfigError, DamagedFileError
from resel.replay.trajectory import Floats, Trajectory

_SLACK = 32
"""One place in so many is set aside for the o_L of each episode."""


@dataclass(frozen=True)
class Piece:
    """Consecutive steps of one stored episode: all of them, or a window."""

    begin: int
    """Place of the first observation."""
    length: int
    """Steps; the observation after the last is at begin + length."""
    terminated: bool
    """The world ended after the last of these steps."""


class ReplayBuffer:
    """Holds at most `capacity` steps of episodes and hands out random ones."""

    def __init__(self, capacity: int, observation_size: int, action_size: int) -> None:
        self.capacity = capacity
        places = capacity + max(capacity // _SLACK, 1)
        try:
            self.observations: Floats = np.zeros((places, observation_size), np.float32)
            self.actions: Floats = np.zeros((places, action_size), np.float32)
            self.rewards: Floats = np.zeros(places, np.float32)
        except MemoryError as error:
            raise ConfigError(
                f"A replay buffer of {capacity} steps does not fit into memory "
                f"({self.planned_bytes(capacity, observation_size, action_size) / 2**30:.1f} GiB): "
                "lower buffer_steps."
            ) from error
        self._episodes: deque[Piece] = deque()
        self._cursor = 0
        self._steps = 0

    @staticmethod
    def planned_bytes(capacity: int, observation_size: int, action_size: int) -> int:
        """Memory of a full buffer."""
        return 4 * (capacity + max(capacity // _SLACK, 1)) * (observation_size + action_size + 1)

    @property
    def steps(self) -> int:
        """Steps held now."""
        return self._steps

    def __len__(self) -> int:
        """Episodes held now."""
        return len(self._episodes)

    def __iter__(self) -> Iterator[Piece]:
        return iter(self._episodes)

    def add(self, trajectory: Trajectory) -> None:
        """Store an episode, dropping the oldest ones where room is needed."""
        length = len(trajectory)
        if length > self.capacity:
            raise BadInputError(
                f"An episode of {length} steps does not fit into a buffer of {self.capacity}: "
                "raise buffer_steps or cut episodes with max_episode_steps."
            )
        if self._cursor + length + 1 > len(self.rewards):
            self._drop_until(len(self.rewards))
            self._cursor = 0
        while self._steps + length > self.capacity:
            self._drop_oldest()
        self._drop_until(self._cursor + length + 1)
        begin, end = self._cursor, self._cursor + length
        self.observations[begin : end + 1] = trajectory.observations
        self.actions[begin:end] = trajectory.actions
        self.actions[end] = 0
        self.rewards[begin:end] = trajectory.rewards
        self.rewards[end] = 0
        self._episodes.append(Piece(begin, length, trajectory.terminated))
        self._cursor = end + 1
        self._steps += length

    def _drop_oldest(self) -> None:
        self._steps -= self._episodes.popleft().length

    def _drop_until(self, end: int) -> None:
        """Drop episodes that stand between the cursor and `end`."""
        while self._episodes and self._cursor <= self._episodes[0].begin < end:
            self._drop_oldest()

    def sample(self, steps: int, rng: np.random.Generator) -> list[Piece]:
        """Different random episodes until they hold at least `steps` steps, or all there are."""
        chosen: dict[int, Piece] = {}
        total = 0
        while total < steps and len(chosen) < len(self._episodes):
            index = int(rng.integers(len(self._episodes)))
            if index not in chosen:
                chosen[index] = self._episodes[index]
                total += chosen[index].length
        return list(chosen.values())

    def sample_windows(self, steps: int, length: int, rng: np.random.Generator) -> list[Piece]:
        """Random windows of `length` steps until they hold at least `steps` steps.

        Episodes are drawn in proportion to their steps; one that is shorter is taken whole.
        """
        episodes = list(self._episodes)
        ends = np.cumsum([episode.length for episode in episodes])
        pieces: list[Piece] = []
        total = 0
        while total < steps:
            index = int(np.searchsorted(ends, rng.integers(self._steps), side="right"))
            episode = episodes[index]
            size = min(length, episode.length)
            offset = int(rng.integers(episode.length - size + 1))
            at_end = offset + size == episode.length
            pieces.append(Piece(episode.begin + offset, size, episode.terminated and at_end))
            total += size
        return pieces

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, list[int]]]:
        """The data in use, and where the episodes stand in it, for a checkpoint."""
        arrays = {
            name: np.concatenate([array[e.begin : e.begin + e.length + 1] for e in self])
            if self._episodes
            else array[:0]
            for name, array in self._arrays().items()
        }
        index = {
            "length": [e.length for e in self],
            "terminated": [int(e.terminated) for e in self],
            "begin": [e.begin for e in self],
            "cursor": [self._cursor],
        }
        return arrays, index

    def restore(self, arrays: dict[str, np.ndarray], index: dict[str, list[int]]) -> None:
        """Take over what `state` gave, each episode at its old place."""
        episodes = [
            Piece(begin, length, bool(terminated))
            for begin, length, terminated in zip(
                index["begin"], index["length"], index["terminated"], strict=True
            )
        ]
        places = sum(e.length + 1 for e in episodes)
        for name, array in self._arrays().items():
            if arrays[name].shape != (places, *array.shape[1:]):
                raise DamagedFileError(
                    f"The saved replay buffer holds {name} of shape {arrays[name].shape} where "
                    f"its index says {(places, *array.shape[1:])}."
                )
        if any(e.length < 1 or not 0 <= e.begin < len(self.rewards) - e.length for e in episodes):
            raise DamagedFileError("The saved replay buffer does not fit buffer_steps.")
        offset = 0
        for episode in episodes:
            size = episode.length + 1
            for name, array in self._arrays().items():
                array[episode.begin : episode.begin + size] = arrays[name][offset : offset + size]
            offset += size
        self._episodes = deque(episodes)
        self._cursor = index["cursor"][0]
        self._steps = sum(e.length for e in episodes)

    def _arrays(self) -> dict[str, Floats]:
        return {
            "observations": self.observations,
            "actions": self.actions,
            "rewards": self.rewards,
        }
