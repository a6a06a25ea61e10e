"""The log of the buffer's bytes: written once, checked to the last bit, never out of its folder."""

from __future__ import annotations

import hashlib
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from resel.errors import DamagedFileError, StorageError
from resel.runs import Segment, SegmentReader, read_segment_list, remove_segments, write_segment

PARTS = [np.arange(600, dtype=np.float32), b"abc" * 100, np.ones((3, 0), np.float32)]
CONTENT = PARTS[0].tobytes() + b"abc" * 100  # type: ignore[union-attr]


@pytest.fixture
def log(tmp_path: Path) -> tuple[Path, list[Segment]]:
    folder = tmp_path / "replay"
    return folder, [write_segment(folder, n, [*PARTS, bytes([n]) * n]) for n in (1, 2, 5)]


def read_all(folder: Path, segments: list[Segment], skip: int = 0) -> bytes:
    target = bytearray(sum(segment.size for segment in segments) - skip)
    with SegmentReader(folder, segments) as reader:
        reader.skip(skip)
        for begin in range(0, len(target), 1000):
            reader.read_into(memoryview(target)[begin : begin + 1000])
    return bytes(target)


def test_what_is_written_comes_back(log: tuple[Path, list[Segment]]) -> None:
    folder, segments = log
    whole = b"".join(CONTENT + bytes([n]) * n for n in (1, 2, 5))
    assert read_all(folder, segments) == whole
    assert read_all(folder, segments, skip=2222) == whole[2222:]
    assert sorted(p.name for p in folder.iterdir()) == [segment.file for segment in segments]
    first = hashlib.sha256(CONTENT + b"\x01")
    assert segments[0] == Segment(1, len(CONTENT) + 1, first.hexdigest())
    assert segments[0].file == f"segment-000001-{first.hexdigest()[:16]}.bin"
    assert read_segment_list([segment.to_json() for segment in segments]) == segments


def test_more_than_there_is(log: tuple[Path, list[Segment]]) -> None:
    folder, segments = log
    with (
        SegmentReader(folder, segments[:1]) as reader,
        pytest.raises(DamagedFileError, match="shorter than its index"),
    ):
        reader.read_into(bytearray(segments[0].size + 1))


def test_a_name_never_stands_for_two_contents(tmp_path: Path) -> None:
    """As after a step back in time, when the same number comes up again."""
    one, other = (write_segment(tmp_path, 7, [data]) for data in (b"one", b"other"))
    assert one.file != other.file
    assert read_all(tmp_path, [one]) == b"one" and read_all(tmp_path, [other]) == b"other"
    (tmp_path / one.file).write_bytes(b"bad")
    assert write_segment(tmp_path, 7, [b"one"]) == one  # the same name is the same content
    assert read_all(tmp_path, [one]) == b"one"


def test_only_what_nobody_needs_is_removed(log: tuple[Path, list[Segment]]) -> None:
    folder, segments = log
    (folder / "notes.txt").write_text("mine")
    remove_segments(folder, segments[1:])
    left = {p.name for p in folder.iterdir()}
    assert left == {"notes.txt", segments[1].file, segments[2].file}
    remove_segments(folder / "nothing", [])


def test_every_flipped_bit_is_noticed(log: tuple[Path, list[Segment]]) -> None:
    folder, segments = log
    rng = random.Random(3)
    for _ in range(100):
        segment = rng.choice(segments)
        data = bytearray((folder / segment.file).read_bytes())
        at, bit = rng.randrange(len(data)), 1 << rng.randrange(8)
        data[at] ^= bit
        (folder / segment.file).write_bytes(data)
        with pytest.raises(DamagedFileError, match=rf"{segment.file}.* SHA-256"):
            read_all(folder, segments, skip=rng.choice([0, 100]))
        data[at] ^= bit
        (folder / segment.file).write_bytes(data)
    assert read_all(folder, segments)


def test_sizes_are_checked_before_anything_is_read(log: tuple[Path, list[Segment]]) -> None:
    folder, segments = log
    last = folder / segments[-1].file
    whole = last.read_bytes()
    for size in (0, 1, len(whole) // 2, len(whole) - 1, len(whole) + 1):
        last.write_bytes((whole + b"x")[:size])
        with pytest.raises(DamagedFileError, match=rf"{last.name} has {size} bytes instead of"):
            SegmentReader(folder, segments)


def test_other_things_in_its_place(log: tuple[Path, list[Segment]], tmp_path: Path) -> None:
    folder, segments = log
    file = folder / segments[1].file
    file.rename(tmp_path / "real")

    def refused(word: str) -> None:
        with pytest.raises(DamagedFileError, match=word):
            SegmentReader(folder, segments)

    refused("missing")
    file.symlink_to(tmp_path / "real")
    refused("regular file")
    file.unlink()
    os.link(tmp_path / "real", file)
    refused("hard link")
    file.unlink()
    os.mkfifo(file)
    refused("regular file")  # and does not wait for somebody to write into it
    file.unlink()
    file.mkdir()
    refused("regular file")


GOOD = {"number": 1, "size": 5, "sha256": "0" * 64}


@pytest.mark.parametrize(
    "document",
    [
        None,
        {},
        "x",
        [1],
        [{**GOOD, "file": "../x"}],
        [{"number": 1, "size": 5}],
        [{**GOOD, "number": "../../etc/passwd"}],
        [{**GOOD, "number": 0}],
        [{**GOOD, "number": True}],
        [{**GOOD, "size": 0}],
        [{**GOOD, "size": -(2**70)}],
        [{**GOOD, "size": 1.0}],
        [{**GOOD, "sha256": "../" * 21 + "x"}],
        [{**GOOD, "sha256": "A" * 64}],
        [{**GOOD, "sha256": None}],
        [GOOD, GOOD],
        [{**GOOD, "number": 2}, GOOD],
    ],
)
def test_lists_that_cannot_be(document: Any) -> None:
    with pytest.raises(DamagedFileError):
        read_segment_list(document)


@pytest.mark.parametrize(("call", "code"), [("write", 28), ("fsync", 5), ("replace", 18)])
def test_a_disk_that_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    kept = write_segment(tmp_path, 1, [b"old"])

    def refuse(*args: Any) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        with pytest.raises(StorageError, match=os.strerror(code)):
            write_segment(tmp_path, 2, [b"new"])
    assert [p.name for p in tmp_path.iterdir()] == [kept.file]
    assert read_all(tmp_path, [kept]) == b"old"
