"""A log of bytes in files that are written once and never changed.

    replay/segment-000007-5d41402abc4b2a76.bin

A checkpoint lists the segments it needs by number, size and SHA-256. The name holds the start of
the hash, so a name never stands for two contents, whatever a crash or a step back in time leaves
behind; and it follows from the entry, so a list cannot lead out of the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from resel.errors import DamagedFileError
from resel.runs._files import (
    make_directories,
    sync_directory,
    temporary_sibling,
    write_file,
    writing,
)
from resel.runs._manifest import is_digest
from resel.runs._reading import altered, check_regular, damaged, open_regular

_NAME = re.compile(r"segment-\d{6,}-[0-9a-f]{16}\.bin")
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Segment:
    """One file of a log."""

    number: int
    size: int
    sha256: str

    @property
    def file(self) -> str:
        """Its name in the folder of the log."""
        return f"segment-{self.number:06d}-{self.sha256[:16]}.bin"

    def to_json(self) -> dict[str, Any]:
        """Its entry in a checkpoint."""
        return {"number": self.number, "size": self.size, "sha256": self.sha256}

    @classmethod
    def from_json(cls, entry: Any) -> Segment:
        """Read an entry back, trusting nothing in it."""
        good = (
            isinstance(entry, Mapping)
            and set(entry) == {"number", "size", "sha256"}
            and all(type(entry[name]) is int and entry[name] > 0 for name in ("number", "size"))
            and is_digest(entry["sha256"])
        )
        if not good:
            raise DamagedFileError(f"The checkpoint lists a segment that cannot be: {entry!r:.100}")
        return cls(entry["number"], entry["size"], entry["sha256"])


def read_segment_list(document: Any) -> list[Segment]:
    """The segments a checkpoint lists, oldest first."""
    if not isinstance(document, list):
        raise DamagedFileError("The checkpoint's list of segments is not a list.")
    segments = [Segment.from_json(entry) for entry in document]
    numbers = [segment.number for segment in segments]
    if numbers != sorted(set(numbers)):
        raise DamagedFileError("The checkpoint's list of segments is not in order.")
    return segments


def write_segment(folder: Path, number: int, chunks: Iterable[Any]) -> Segment:
    """Write a segment; it is on the disk under its name, or not at all, when this returns."""
    temporary = temporary_sibling(folder / f"segment-{number:06d}")
    with writing(
        f"A part of the replay buffer could not be saved to {folder}",
        "What was saved before is untouched; check free space and permissions.",
    ):
        make_directories(folder)
        try:
            segment = Segment(number, *write_file(temporary, chunks))
            os.replace(temporary, folder / segment.file)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        sync_directory(folder)
    return segment


def remove_segments(folder: Path, keep: Iterable[Segment]) -> None:
    """Remove the segments that are not to be kept; anything else in the folder stays."""
    if not folder.is_dir():
        return
    kept = {segment.file for segment in keep}
    with writing(f"Old parts of the replay buffer in {folder} could not be removed", "Try again."):
        for entry in folder.iterdir():
            if _NAME.fullmatch(entry.name) and entry.name not in kept:
                entry.unlink(missing_ok=True)


class SegmentReader:
    """The bytes of some segments, one after another.

    Sizes are checked before anything is read. The hash of a segment is checked with its last byte,
    so the bytes may be used once all of them have been read.
    """

    def __init__(self, folder: Path, segments: Sequence[Segment]) -> None:
        self._folder = folder
        self._segments = iter(segments)
        self._segment: Segment | None = None
        self._stream: io.FileIO | None = None
        self._digest = hashlib.sha256()
        self._left = 0
        for segment in segments:
            check_regular(folder / segment.file, segment.size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._close()

    def skip(self, size: int) -> None:
        """Pass over bytes, which count for the hash all the same."""
        scratch = bytearray(min(size, _CHUNK))
        while size:
            part = memoryview(scratch)[: min(size, _CHUNK)]
            self.read_into(part)
            size -= len(part)

    def read_into(self, target: Any) -> None:
        """Fill an array or other writable memory with the next bytes."""
        view = memoryview(target)
        if not view.nbytes:
            return
        view = view.cast("B")
        while view:
            stream, path = self._open()
            try:
                count = stream.readinto(view[: self._left])
            except OSError as error:
                raise damaged(path, f"cannot be read ({error.strerror})") from error
            if not count:
                raise damaged(path, "became shorter while it was read")
            self._digest.update(view[:count])
            self._left -= count
            view = view[count:]
            if not self._left:
                self._verify(path)

    def _open(self) -> tuple[io.FileIO, Path]:
        if self._stream is None:
            self._segment = next(self._segments, None)
            if self._segment is None:
                raise DamagedFileError("The replay buffer on disk is shorter than its index says.")
            path = self._folder / self._segment.file
            self._stream = open_regular(path, self._segment.size)
            self._left, self._digest = self._segment.size, hashlib.sha256()
        assert self._segment is not None
        return self._stream, self._folder / self._segment.file

    def _verify(self, path: Path) -> None:
        self._close()
        if self._segment is None or self._digest.hexdigest() != self._segment.sha256:
            raise altered(path)

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
