"""Memory of whole episodes: a ring of arrays in which each observation is stored once.

An episode of L steps takes L + 1 consecutive slots, the last of which holds only o_L. When there
is no room, the oldest whole episodes leave.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from resel.data.trajectory import Floats, Observations, Trajectory
from resel.errors import BadInputError, ConfigError, DamagedFileError

_SLACK = 32
"""One slot in so many is set aside for the o_L of each episode."""
_BYTES = "observation_bytes"
"""The size of observations that are stored as bytes, in the index of a saved buffer."""
_COLUMN = "column."
"""What the sizes of columns are called by in the index of a saved buffer."""


@dataclass(frozen=True)
class EpisodeSlice:
    """Consecutive steps of one stored episode: all of them, or a window."""

    begin: int
    """Place of the first observation."""
    length: int
    """Steps; the observation after the last is at begin + length."""
    terminated: bool
    """The world ended after the last of these steps."""
    lead: int = 0
    """How many of its first steps are only read: they do not count."""


class EpisodeIndex(NamedTuple):
    """The episodes as arrays, oldest first."""

    begin: NDArray[np.int64]
    length: NDArray[np.int64]
    terminated: NDArray[np.bool_]
    ends: NDArray[np.int64]
    """Steps of all episodes up to each."""


class ReplayBuffer:
    """Holds at most `capacity` steps of episodes and hands out random ones."""

    def __init__(
        self,
        capacity: int,
        observation_size: int,
        action_size: int,
        columns: Mapping[str, int] | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        """`dtype` is that of observations; all else is float32."""
        self.capacity = capacity
        # By name, so that saved episodes do not depend on the order they are told in.
        sizes = dict(sorted((columns or {}).items()))
        slots = self.slots_of(capacity)
        try:
            self.observations: Observations = np.zeros((slots, observation_size), dtype)
            self.actions: Floats = np.zeros((slots, action_size), np.float32)
            self.rewards: Floats = np.zeros(slots, np.float32)
            self.columns: dict[str, Floats] = {
                name: np.zeros((slots, size), np.float32) for name, size in sizes.items()
            }
            """Named columns beside these, (slots, size) each."""
        except MemoryError as error:
            planned = self.planned_bytes(capacity, observation_size, action_size, sizes, dtype)
            raise ConfigError(
                f"A replay buffer of {capacity} steps does not fit into memory "
                f"({planned / 2**30:.1f} GiB): lower buffer_steps."
            ) from error
        self.added = 0
        """Episodes ever stored; the newest of them are held."""
        self._episodes: deque[EpisodeSlice] = deque()
        self._index: EpisodeIndex | None = None
        self._cursor = 0
        self._steps = 0

    @property
    def _bytes(self) -> bool:
        """Whether observations are stored as bytes."""
        return self.observations.dtype == np.uint8

    @staticmethod
    def slots_of(capacity: int) -> int:
        """Slots of the ring that holds so many steps."""
        return capacity + max(capacity // _SLACK, 1)

    @classmethod
    def planned_bytes(
        cls,
        capacity: int,
        observation_size: int,
        action_size: int,
        columns: Mapping[str, int] | None = None,
        dtype: DTypeLike = np.float32,
    ) -> int:
        """Memory of a full buffer."""
        width = 4 * (action_size + 1 + sum((columns or {}).values()))
        return cls.slots_of(capacity) * (np.dtype(dtype).itemsize * observation_size + width)

    @property
    def column_sizes(self) -> dict[str, int]:
        """The named columns beside observations, actions and rewards."""
        return {name: column.shape[1] for name, column in self.columns.items()}

    @property
    def steps(self) -> int:
        """Steps held now."""
        return self._steps

    def __len__(self) -> int:
        """Episodes held now."""
        return len(self._episodes)

    def __iter__(self) -> Iterator[EpisodeSlice]:
        return iter(self._episodes)

    def add(self, trajectory: Trajectory) -> None:
        """Store an episode, dropping the oldest ones where room is needed."""
        length = len(trajectory)
        if length > self.capacity:
            raise BadInputError(
                f"An episode of {length} steps does not fit into a buffer of {self.capacity}: "
                "raise buffer_steps or cut episodes with max_episode_steps."
            )
        given = {name: column.shape[1] for name, column in trajectory.extras.items()}
        if given != self.column_sizes:
            raise BadInputError(
                f"An episode with the columns {given} does not fit into a buffer with "
                f"{self.column_sizes}: all episodes need the same names and sizes."
            )
        if trajectory.observations.dtype != self.observations.dtype:
            raise BadInputError(
                f"An episode with observations of {trajectory.observations.dtype} does not fit "
                f"into a buffer of {self.observations.dtype}: encode them as those it holds."
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
        for name, column in self.columns.items():
            column[begin : end + 1] = trajectory.extras[name]
        self._index = None
        self._episodes.append(EpisodeSlice(begin, length, trajectory.terminated))
        self.added += 1
        self._cursor = end + 1
        self._steps += length

    def _drop_oldest(self) -> None:
        self._steps -= self._episodes.popleft().length

    def _drop_until(self, end: int) -> None:
        """Drop episodes that stand between the cursor and `end`."""
        while self._episodes and self._cursor <= self._episodes[0].begin < end:
            self._drop_oldest()

    def sample(self, steps: int, rng: np.random.Generator, least: int = 1) -> list[EpisodeSlice]:
        """Different random episodes, at least so many and `steps` steps, or all there are."""
        chosen: dict[int, EpisodeSlice] = {}
        total = 0
        while (total < steps or len(chosen) < least) and len(chosen) < len(self._episodes):
            index = int(rng.integers(len(self._episodes)))
            if index not in chosen:
                chosen[index] = self._episodes[index]
                total += chosen[index].length
        return list(chosen.values())

    def sample_windows(
        self, steps: int, length: int, rng: np.random.Generator
    ) -> list[EpisodeSlice]:
        """Random windows of `length` steps until they hold at least `steps` steps.

        Episodes are drawn in proportion to their steps; one that is shorter is taken whole.
        """
        ends = self.index().ends  # made once for an episode, not for a batch
        pieces: list[EpisodeSlice] = []
        total = 0
        while total < steps:
            index = int(np.searchsorted(ends, rng.integers(self._steps), side="right"))
            episode = self._episodes[index]
            size = min(length, episode.length)
            offset = int(rng.integers(episode.length - size + 1))
            at_end = offset + size == episode.length
            pieces.append(EpisodeSlice(episode.begin + offset, size, episode.terminated and at_end))
            total += size
        return pieces

    def uniform_windows(
        self, count: int, length: int, rng: np.random.Generator, lead: int = 0
    ) -> list[EpisodeSlice]:
        """`count` windows of `length` steps, uniform over all slots where one can begin.

        An episode of L >= length steps has L - length + 1 of them; a shorter one is taken whole.
        Up to `lead` steps before a window come with it.
        """
        index = self.index()
        starts = np.maximum(index.length - length, 0) + 1
        ends = np.cumsum(starts)
        drawn = rng.integers(ends[-1], size=count)
        episode = np.searchsorted(ends, drawn, side="right")
        offset = drawn - (ends[episode] - starts[episode])
        size = np.minimum(index.length[episode], length)
        ended = index.terminated[episode] & (offset + size == index.length[episode])
        before = np.minimum(offset, lead)
        begin = index.begin[episode] + offset - before
        columns = (begin, size + before, ended, before)
        return [EpisodeSlice(*row) for row in zip(*(c.tolist() for c in columns), strict=True)]

    def sample_steps(
        self,
        count: int,
        rng: np.random.Generator,
        episodes: NDArray[np.int64] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Where `count` steps stand in the ring, uniform over all; which of them ended a world.

        `episodes` names those to draw from, counted from the oldest; None means all.
        """
        index = self.index()
        if episodes is not None:
            index = EpisodeIndex(
                index.begin[episodes],
                index.length[episodes],
                index.terminated[episodes],
                np.cumsum(index.length[episodes]),
            )
        episode, left = self._drawn_steps(count, rng, index)
        at = index.begin[episode] + index.length[episode] - left
        return at, index.terminated[episode] & (left == 1)

    def sample_histories(
        self, count: int, length: int, rng: np.random.Generator
    ) -> list[EpisodeSlice]:
        """`count` steps, uniform over all, each at the end of the up to `length` steps to it."""
        index = self.index()
        episode, left = self._drawn_steps(count, rng, index)
        number = index.length[episode] - left  # of the step in its episode, from 0
        size = np.minimum(number + 1, length)
        ended = index.terminated[episode] & (left == 1)
        begin = index.begin[episode] + number + 1 - size
        columns = (begin.tolist(), size.tolist(), ended.tolist())
        return [EpisodeSlice(*row) for row in zip(*columns, strict=True)]

    @staticmethod
    def _drawn_steps(
        count: int, rng: np.random.Generator, index: EpisodeIndex
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Episodes of `count` random steps; how many steps are left there, 1 at the last."""
        drawn = rng.integers(index.ends[-1], size=count)
        episode = np.searchsorted(index.ends, drawn, side="right")
        return episode, index.ends[episode] - drawn

    def held_steps(self) -> NDArray[np.bool_]:
        """Which slots of the ring hold a step now. (slots,)"""
        index = self.index()
        change = np.zeros(len(self.rewards), np.int8)
        change[index.begin] = 1
        change[index.begin + index.length] = -1  # the slot of o_L, where no other episode begins
        held: NDArray[np.bool_] = np.cumsum(change, dtype=np.int8) > 0
        return held

    def ended_worlds(self, at: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the steps in these slots ended a world."""
        index = self.index()
        return np.isin(at, (index.begin + index.length - 1)[index.terminated])

    def newest(self, steps: int) -> list[EpisodeSlice]:
        """The newest episodes, oldest of them first, that hold at least `steps` steps."""
        chosen: list[EpisodeSlice] = []
        total = 0
        for episode in reversed(self._episodes):
            if total >= steps:
                break
            chosen.append(episode)
            total += episode.length
        return chosen[::-1]

    def index(self) -> EpisodeIndex:
        """Where the episodes stand, oldest first."""
        if self._index is None:
            columns = self.state()
            ends = np.cumsum(columns["length"])
            self._index = EpisodeIndex(
                columns["begin"], columns["length"], columns["terminated"], ends
            )
        return self._index

    def told(self, name: str) -> Floats | None:
        """A column at the first step of every episode, oldest first (episodes, size), if it is
        there."""
        return self.columns[name][self.index().begin] if name in self.columns else None

    def episode(self, number: int) -> Trajectory:
        """One of the episodes, counted from the oldest; valid until another one is stored."""
        piece = self._episodes[number]
        observations, actions, rewards, *columns = (block.view() for block in self.blocks(piece))
        extras = dict(zip(self.columns, columns, strict=True))
        return Trajectory(observations, actions, rewards, piece.terminated, extras)

    def blocks(self, episode: EpisodeSlice) -> tuple[NDArray[Any], ...]:
        """Observations, actions, rewards and columns of an episode, where they are in the ring."""
        begin, end = episode.begin, episode.begin + episode.length
        return (
            self.observations[begin : end + 1],
            self.actions[begin:end],
            self.rewards[begin:end],
            *(column[begin : end + 1] for column in self.columns.values()),
        )

    def bytes_of(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """The size of the blocks of episodes of these lengths."""
        row = self.observations[0].nbytes + 4 * sum(self.column_sizes.values())
        sizes: NDArray[np.int64] = row + lengths * (row + 4 * (self.actions.shape[1] + 1))
        return sizes

    def state(self) -> dict[str, NDArray[Any]]:
        """Where the episodes stand, oldest first, for a checkpoint; `blocks` gives their data."""
        return {
            "begin": np.array([e.begin for e in self], np.int64),
            "length": np.array([e.length for e in self], np.int64),
            "terminated": np.array([e.terminated for e in self], np.bool_),
            **({_BYTES: np.array([self.observations.shape[1]], np.int64)} if self._bytes else {}),
            **{
                f"{_COLUMN}{name}": np.array([size], np.int64)
                for name, size in self.column_sizes.items()
            },
        }

    def restore(
        self, episodes: Sequence[EpisodeSlice], read: Callable[[NDArray[Any]], None]
    ) -> None:
        """Hold what `read_index` gave; `read` fills the blocks of one episode after another.

        The buffer is empty if that fails.
        """
        self._episodes, self._index, self._cursor, self._steps = deque(), None, 0, 0
        for episode in episodes:
            for block in self.blocks(episode):
                read(block)
                if not np.isfinite(block).all():
                    raise DamagedFileError("The saved replay buffer holds NaN or infinity.")
            end = episode.begin + episode.length
            self.actions[end], self.rewards[end] = 0, 0
            self._cursor = end + 1
        self._steps = sum(episode.length for episode in episodes)
        self._episodes = deque(episodes)
        self.added = len(episodes)

    def read_index(self, index: Mapping[str, NDArray[Any]]) -> list[EpisodeSlice]:
        """The episodes of what `state` gave; none may reach out of the ring or into another."""
        self.check_columns(index)
        begin, length, terminated = (index[name] for name in ("begin", "length", "terminated"))
        for array, kind in ((begin, np.int64), (length, np.int64), (terminated, np.bool_)):
            if array.dtype != kind or array.ndim != 1 or array.shape != begin.shape:
                raise DamagedFileError("The index of the saved replay buffer has the wrong form.")
        slots = len(self.rewards)
        fits = (length >= 1) & (length < slots) & (begin >= 0) & (begin < slots)
        if fits.all() and len(begin):
            order = np.argsort(begin)
            ends = (begin + length + 1)[order]
            fits &= bool((ends <= np.append(begin[order][1:], slots)).all())
            fits &= int(length.sum()) <= self.capacity
        if not fits.all():
            raise DamagedFileError("The saved replay buffer does not fit buffer_steps.")
        lists = (begin.tolist(), length.tolist(), terminated.tolist())
        return [EpisodeSlice(*row) for row in zip(*lists, strict=True)]

    def check_columns(self, index: Mapping[str, NDArray[Any]]) -> None:
        """Refuse what `state` gave for a buffer with other columns."""
        if (_BYTES in index) != self._bytes:
            raise DamagedFileError(
                "The saved replay buffer holds images as float32, as earlier versions did, and "
                "they are stored as uint8 now: begin the run anew, or go on with the version of "
                "resel that it was begun with (environment.json)."
                if self._bytes
                else "The saved replay buffer holds images of uint8, and the environments of this "
                "run show none: continue it with the environment it was begun with."
            )
        saved = [
            (name.removeprefix(_COLUMN), array.reshape(-1).tolist())
            for name, array in index.items()
            if name.startswith(_COLUMN)
        ]
        own = [(name, [size]) for name, size in self.column_sizes.items()]
        if sorted(saved) != sorted(own):
            raise DamagedFileError(
                f"The saved replay buffer has the columns {dict(saved)}, but the environments of "
                f"this run tell {dict(own)}: continue it with the environment it was begun with."
            )
