"""The replay buffer on disk: episodes are written once, and a checkpoint costs what is new.

    segments   |  7  |   8   |  9 |          the bytes of all episodes, oldest first
    buffer       |---- live ------|          what the ring still holds: always the end of them

Episodes leave the buffer in the order they came, so no place needs to be written down for any of
them: the live ones are the last bytes of the segments a checkpoint lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from resel.data import EpisodeSlice, ReplayBuffer
from resel.errors import DamagedFileError, ReselError
from resel.runs.bundle import Bundle, read_document
from resel.runs.segments import (
    Segment,
    SegmentReader,
    read_segment_list,
    remove_segments,
    write_segment,
)
from resel.training import Trainer

_LARGE = 64 << 20
"""Further episodes go into a new segment from this size on."""
_SMALL = 8 << 20
"""A last segment below this size is written again with what is new, so that there are not many."""


class ReplayLog:
    """What of a buffer is on disk, and where."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._segments: list[tuple[Segment, int]] = []  # and how many episodes each holds
        self._written = 0  # of the episodes ever added to the buffer
        self._next = 1

    def save(self, buffer: ReplayBuffer) -> list[dict[str, Any]]:
        """Write the episodes that are not on disk yet; the list of segments for a checkpoint."""
        new = min(buffer.added - self._written, len(buffer))
        segments = self._live(len(buffer) - new)
        if new and segments and segments[-1][0].size < _SMALL:
            new += min(segments.pop()[1], len(buffer) - new)
        number = self._next
        for episodes in _groups(buffer, islice(buffer, len(buffer) - new, None)):
            blocks = (block for episode in episodes for block in buffer.blocks(episode))
            segments.append((write_segment(self._folder, number, blocks), len(episodes)))
            number += 1
        # Only now: after a failure all of this is done again, under the same names.
        self._segments, self._written, self._next = segments, buffer.added, number
        return [segment.to_json() for segment, _ in segments]

    def load(self, document: Any, index: Mapping[str, Any], buffer: ReplayBuffer) -> None:
        """Fill the buffer with what a checkpoint lists, all of it checked."""
        episodes = buffer.read_index(index)
        segments = read_segment_list(document)
        sizes = buffer.bytes_of(np.array([episode.length for episode in episodes], np.int64))
        dead = sum(segment.size for segment in segments) - int(sizes.sum())
        if not 0 <= dead < (segments[0].size if segments else 1):
            raise DamagedFileError(
                "The index of the saved replay buffer and its segments disagree."
            )
        held = _count_episodes(segments, sizes, dead)
        with SegmentReader(self._folder, segments) as reader:
            reader.skip(dead)
            buffer.restore(episodes, reader.read_into)
        self._segments = list(zip(segments, held, strict=True))
        self._written = buffer.added
        self._next = segments[-1].number + 1 if segments else 1

    def remove_unneeded(self, checkpoints: Iterable[Path]) -> None:
        """Remove the segments that none of these checkpoints lists, if all of them can tell."""
        needed: list[Segment] = [segment for segment, _ in self._segments]
        for path in checkpoints:
            try:
                needed += read_segment_list(read_document(path, "checkpoint", "segments"))
            except ReselError:
                return  # a later save no longer keeps it
        remove_segments(self._folder, needed)

    def _live(self, episodes: int) -> list[tuple[Segment, int]]:
        """The segments that hold the last so many of the written episodes."""
        first = len(self._segments)
        while episodes > 0:
            first -= 1
            episodes -= self._segments[first][1]
        return self._segments[first:]


def restore_trainer(trainer: Trainer, checkpoint: Bundle, replay: ReplayLog) -> bool:
    """Continue from a checkpoint; False if an unfinished episode had to be dropped."""
    documents = checkpoint.documents
    return trainer.restore(
        checkpoint.tensors,
        documents,
        lambda index, buffer: replay.load(documents["segments"], index, buffer),
    )


def _groups(buffer: ReplayBuffer, episodes: Iterable[EpisodeSlice]) -> Iterable[list[EpisodeSlice]]:
    """Whole episodes for one segment each."""
    group: list[EpisodeSlice] = []
    size = 0
    for episode in episodes:
        group.append(episode)
        size += sum(block.nbytes for block in buffer.blocks(episode))
        if size >= _LARGE:
            yield group
            group, size = [], 0
    if group:
        yield group


def _count_episodes(segments: list[Segment], sizes: np.ndarray, dead: int) -> list[int]:
    """How many live episodes each segment holds; none may reach from one into the next."""
    ends = dead + np.cumsum(sizes)
    bounds = np.cumsum([segment.size for segment in segments])
    last = np.searchsorted(ends, bounds, side="left")
    if len(bounds) and (not len(ends) or (ends[np.minimum(last, len(ends) - 1)] != bounds).any()):
        raise DamagedFileError("An episode of the saved replay buffer is split between segments.")
    return [int(count) for count in np.diff(last, prepend=-1)]
