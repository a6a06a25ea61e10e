"""Named columns go with the steps of their episode: into the ring, out of it and onto the row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from resel.data import Batch, EpisodeSlice, ReplayBuffer, Trajectory, pack
from resel.errors import BadInputError, DamagedFileError

SIZES = {"task": 1, "hidden": 2, "signal": 3}


def episode(length: int, number: int, names: Any = SIZES) -> Trajectory:
    """Observation: [the number of the episode, the step]; `signal` differs at every step."""
    steps = np.arange(length + 1, dtype=np.float32)
    whole = np.full(length + 1, number, np.float32)
    columns = {
        "task": whole[:, None] + 1,
        "hidden": np.stack([whole / 7, -whole], 1),
        "signal": np.stack([whole, steps, whole * steps], 1),
    }
    return Trajectory(
        np.stack([whole, steps], 1),
        np.ones((length, 1), np.float32),
        steps[:-1],
        terminated=number % 2 == 0,
        extras={name: columns[name] for name in names},
    )


def filled(lengths: list[int], capacity: int) -> ReplayBuffer:
    buffer = ReplayBuffer(capacity, 2, 1, SIZES)
    for number, length in enumerate(lengths):
        buffer.add(episode(min(length, capacity), number))
    return buffer


def check(batch: Batch, pieces: list[EpisodeSlice]) -> None:
    """Every step that holds an observation has the columns of its episode and step."""
    assert {name: column.shape[2] for name, column in batch.extras.items()} == SIZES
    last = torch.zeros_like(batch.mask)  # o_L of each piece, which `mask` leaves out
    last[:, 1:] = batch.mask[:, :-1] & ~batch.mask[:, 1:]
    held = (batch.mask | last).numpy()
    assert held.sum() == sum(piece.length + 1 for piece in pieces)
    for row, t in np.argwhere(held):
        number, step = batch.observation[row, t].tolist()
        found = {name: column[row, t].tolist() for name, column in batch.extras.items()}
        wanted = episode(int(step) + 1, int(number)).extras
        assert found == {name: column[int(step)].tolist() for name, column in wanted.items()}
    for column in batch.extras.values():
        assert column.dtype == torch.float32
        assert not column[torch.from_numpy(~held)].any()  # zeros on padding


@settings(max_examples=80, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=20),
    capacity=st.integers(5, 80),
    rows=st.integers(1, 4),
    window=st.one_of(st.none(), st.integers(1, 6)),
    seed=st.integers(0, 10**6),
)
def test_a_batch_has_the_columns_of_its_episodes(
    lengths: list[int], capacity: int, rows: int, window: int | None, seed: int
) -> None:
    buffer = filled(lengths, capacity)
    rng = np.random.default_rng(seed)
    pieces = buffer.sample(25, rng) if window is None else buffer.sample_windows(25, window, rng)
    check(pack(buffer, pieces, rows), pieces)


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 12), max_size=15),
    more=st.lists(st.integers(1, 12), min_size=1, max_size=15),
    capacity=st.integers(5, 60),
)
def test_a_restored_buffer_has_the_same_columns(
    lengths: list[int], more: list[int], capacity: int
) -> None:
    old = filled(lengths, capacity)
    new = ReplayBuffer(capacity, 2, 1, dict(reversed(SIZES.items())))  # the order does not matter
    data = [block.copy() for piece in old for block in old.blocks(piece)]
    lengths_held = np.array([piece.length for piece in old], np.int64)
    assert sum(block.nbytes for block in data) == old.bytes_of(lengths_held).sum()
    blocks = iter(data)
    new.restore(new.read_index(old.state()), lambda target: np.copyto(target, next(blocks)))
    for number, length in enumerate(more, start=len(lengths)):
        for buffer in (old, new):
            buffer.add(episode(min(length, capacity), number))
    assert list(old) == list(new)
    for piece in new:
        for mine, yours in zip(old.blocks(piece), new.blocks(piece), strict=True):
            np.testing.assert_array_equal(mine, yours)
    check(pack(new, list(new)), list(new))


def test_an_episode_with_other_columns_is_refused() -> None:
    buffer = filled([3, 4], 10)
    for names in ((), ("task", "hidden")):
        with pytest.raises(BadInputError, match=r"does not fit into a buffer with .*'signal': 3"):
            buffer.add(episode(10, 2, names))
    with pytest.raises(BadInputError, match=r"columns {'task': 1} does not .* buffer with {}"):
        ReplayBuffer(10, 2, 1).add(episode(3, 0, ("task",)))
    assert [piece.length for piece in buffer] == [3, 4]  # refused before anything was dropped


@pytest.mark.parametrize("other", [None, {"task": 1}, {**SIZES, "hidden": 3}, {**SIZES, "x": 1}])
def test_saved_columns_that_the_run_does_not_have(other: dict[str, int] | None) -> None:
    saved = filled([3, 4], 100)
    with pytest.raises(DamagedFileError, match=r"has the columns .*'hidden': .*this run tell"):
        ReplayBuffer(100, 2, 1, other).read_index(saved.state())
    with pytest.raises(DamagedFileError, match=r"this run tell .*'hidden'"):
        saved.read_index(ReplayBuffer(100, 2, 1, other).state())


def test_a_damaged_column_is_refused() -> None:
    old = filled([3, 4], 100)
    data = [block.copy() for piece in old for block in old.blocks(piece)]
    data[4][1] = np.nan
    blocks = iter(data)
    with pytest.raises(DamagedFileError, match="NaN"):
        old.restore(old.read_index(old.state()), lambda target: np.copyto(target, next(blocks)))
    assert len(old) == 0


def test_columns_count_as_memory() -> None:
    for capacity in (1, 32, 1000):
        buffer = ReplayBuffer(capacity, 2, 1, SIZES)
        own = (buffer.observations, buffer.actions, buffer.rewards, *buffer.columns.values())
        taken = sum(array.nbytes for array in own)
        assert taken == ReplayBuffer.planned_bytes(capacity, 2, 1, SIZES)
    assert ReplayBuffer.planned_bytes(9, 2, 1, {}) == ReplayBuffer.planned_bytes(9, 2, 1)


def test_columns_move_with_the_batch() -> None:
    buffer = filled([3, 4], 100)
    batch = pack(buffer, list(buffer))
    assert batch.to(torch.device("cpu")) is batch
    moved = batch.to(torch.device("meta"))
    assert {c.device.type for c in moved.extras.values()} == {"meta"}
    assert moved.extras.keys() == batch.extras.keys() and moved.origins == batch.origins
    plain = ReplayBuffer(10, 2, 1)
    plain.add(episode(3, 0, ()))
    assert pack(plain, list(plain)).extras == {}
