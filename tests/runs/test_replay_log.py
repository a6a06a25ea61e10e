"""The buffer on disk against the buffer in memory, whatever comes and goes between two saves."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resel.data import ReplayBuffer, Trajectory
from resel.errors import DamagedFileError
from resel.runs import ReplayLog, read_segment_list, replay_log, write_bundle

OBSERVATION, ACTION = 3, 2


def episode(length: int, number: int) -> Trajectory:
    first = np.arange(length + 1, dtype=np.float32) + 1000 * number
    return Trajectory(
        np.stack([first] * OBSERVATION, 1),
        np.stack([-first[1:]] * ACTION, 1),
        first[1:] * 2,
        number % 3 == 0,
    )


def blocks(buffer: ReplayBuffer) -> list[Any]:
    return [(piece, *(block.tobytes() for block in buffer.blocks(piece))) for piece in buffer]


def loaded(folder: Path, document: Any, like: ReplayBuffer) -> tuple[ReplayLog, ReplayBuffer]:
    log, buffer = ReplayLog(folder), ReplayBuffer(like.capacity, OBSERVATION, ACTION)
    log.load(document, like.state(), buffer)
    assert blocks(buffer) == blocks(like)
    return log, buffer


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> Any:
    def choose(small: int, large: int) -> None:
        monkeypatch.setattr(replay_log, "_SMALL", small)
        monkeypatch.setattr(replay_log, "_LARGE", large)

    return choose


@settings(max_examples=20, deadline=None)
@given(
    capacity=st.integers(5, 60),
    small=st.sampled_from([0, 300, 10**6]),
    large=st.sampled_from([1, 700, 10**6]),
    rounds=st.lists(
        st.tuples(
            st.lists(st.integers(1, 20), max_size=8), st.sampled_from(["go", "resume", "back"])
        ),
        min_size=1,
        max_size=8,
    ),
)
def test_any_history(
    tmp_path_factory: pytest.TempPathFactory,
    capacity: int,
    small: int,
    large: int,
    rounds: list[tuple[list[int], str]],
) -> None:
    """Saves with two generations kept, resumes, and steps back to the generation before."""
    folder = tmp_path_factory.mktemp("log")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay_log, "_SMALL", small)
        patch.setattr(replay_log, "_LARGE", large)
        log, buffer = ReplayLog(folder / "replay"), ReplayBuffer(capacity, OBSERVATION, ACTION)
        kept: list[tuple[Any, ReplayBuffer]] = []
        number = 0
        for lengths, then in rounds:
            for length in lengths:
                buffer.add(episode(min(length, capacity), number))
                number += 1
            document = log.save(buffer)
            # A frozen copy of what was saved, through the disk.
            kept = [*kept[-1:], (document, loaded(folder / "replay", document, buffer)[1])]
            for name, (saved, _) in zip("ab", kept, strict=False):
                write_bundle(folder / name, "checkpoint", {}, {"segments": saved})
            log.remove_unneeded([folder / name for name, _ in zip("ab", kept, strict=False)])
            for saved, state in kept:  # both generations can still be loaded
                loaded(folder / "replay", saved, state)
            needed = {s.file for saved, _ in kept for s in read_segment_list(saved)}
            assert {p.name for p in (folder / "replay").glob("*")} == needed
            if then == "resume":
                log, buffer = loaded(folder / "replay", *kept[-1])
            elif then == "back":
                log, buffer = loaded(folder / "replay", *kept[0])
                kept = kept[:1]


def test_a_checkpoint_costs_what_is_new(tmp_path: Path, sizes: Any) -> None:
    sizes(100, 10**6)
    log, buffer = ReplayLog(tmp_path), ReplayBuffer(1000, OBSERVATION, ACTION)
    for number in range(20):
        buffer.add(episode(10, number))
    first = log.save(buffer)
    before = {p.name: p.stat().st_mtime_ns for p in tmp_path.iterdir()}
    assert log.save(buffer) == first  # nothing is new
    buffer.add(episode(10, 20))
    second = log.save(buffer)
    assert second[:-1] == first
    assert second[-1]["size"] == 4 * (11 * OBSERVATION + 10 * ACTION + 10)
    assert {n: p.stat().st_mtime_ns for n in before if (p := tmp_path / n).exists()} == before


def test_small_segments_are_put_together(tmp_path: Path, sizes: Any) -> None:
    sizes(1000, 10**6)
    log, buffer = ReplayLog(tmp_path), ReplayBuffer(1000, OBSERVATION, ACTION)
    for number in range(30):
        buffer.add(episode(2, number))
        document = log.save(buffer)
        log.remove_unneeded([])
        assert all(entry["size"] >= 1000 for entry in document[:-1])
    assert len(document) == len(list(tmp_path.iterdir())) == 2
    loaded(tmp_path, document, buffer)


def test_large_segments_are_split_between_episodes(tmp_path: Path, sizes: Any) -> None:
    sizes(0, 500)
    log, buffer = ReplayLog(tmp_path), ReplayBuffer(1000, OBSERVATION, ACTION)
    for number in range(12):
        buffer.add(episode(10, number))  # 252 bytes each
    document = log.save(buffer)
    assert [entry["size"] for entry in document] == [504] * 6
    assert [entry["number"] for entry in document] == [1, 2, 3, 4, 5, 6]
    loaded(tmp_path, document, buffer)


@pytest.mark.parametrize("change", ["drop first", "drop last", "longer", "shorter", "other index"])
def test_an_index_that_does_not_belong_to_the_segments(
    tmp_path: Path, sizes: Any, change: str
) -> None:
    sizes(0, 500)
    buffer = ReplayBuffer(1000, OBSERVATION, ACTION)
    for number in range(7):
        buffer.add(episode(10, number))
    document = ReplayLog(tmp_path).save(buffer)
    index = buffer.state()
    if change == "drop first":
        document = document[1:]
    elif change == "drop last":
        document = document[:-1]
    elif change == "other index":
        index["length"] = np.array([8, 9, 10, 9, 9, 9, 16], np.int64)  # as many bytes in all
        index["begin"] = np.array([0, 20, 40, 60, 80, 100, 120], np.int64)
    else:
        index["length"][3] += 1 if change == "longer" else -8
        index["begin"][4:] += 1
    fresh = ReplayBuffer(1000, OBSERVATION, ACTION)
    with pytest.raises(DamagedFileError):
        ReplayLog(tmp_path).load(document, index, fresh)
    assert len(fresh) == 0


def test_segments_are_kept_while_a_checkpoint_cannot_tell(tmp_path: Path, sizes: Any) -> None:
    sizes(0, 10**6)
    log, buffer = ReplayLog(tmp_path / "replay"), ReplayBuffer(10, OBSERVATION, ACTION)
    for number in range(3):
        buffer.add(episode(10, number))
        document = log.save(buffer)
    (tmp_path / "bad").mkdir()
    log.remove_unneeded([tmp_path / "bad"])
    assert len(list((tmp_path / "replay").iterdir())) == 3
    shutil.rmtree(tmp_path / "bad")
    log.remove_unneeded([])
    assert len(list((tmp_path / "replay").iterdir())) == len(document) == 1
