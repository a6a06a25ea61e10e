"""The packed sequence against a step-by-step construction."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from resel.data import Batch, EpisodeSlice, ReplayBuffer, Trajectory, pack
from resel.data.packing import assign_rows


def filled(lengths: list[int], seed: int = 0) -> ReplayBuffer:
    rng = np.random.default_rng(seed)
    buffer = ReplayBuffer(sum(lengths) * 2 + 10, 3, 2)
    for length in lengths:
        buffer.add(
            Trajectory(
                rng.normal(size=(length + 1, 3)).astype(np.float32),
                rng.normal(size=(length, 2)).astype(np.float32),
                rng.normal(size=length).astype(np.float32),
                bool(rng.random() < 0.5),
            )
        )
    return buffer


Place = dict[str, object]


def naive_rows(
    buffer: ReplayBuffer, pieces: list[EpisodeSlice], layout: list[list[int]]
) -> list[list[Place]]:
    """Every step of every row, written out."""
    rows: list[list[Place]] = []
    for row in layout:
        slots: list[Place] = []
        for i in row:
            piece = pieces[i]
            for t in range(piece.length + 1):
                at, last = piece.begin + t, t == piece.length
                slots.append(
                    {
                        "observation": buffer.observations[at].tolist(),
                        "action": [0.0, 0.0] if last else buffer.actions[at].tolist(),
                        "reward": 0.0 if last else float(buffer.rewards[at]),
                        "terminated": float(t == piece.length - 1 and piece.terminated),
                        "is_first": t == 0,
                        "mask": not last,
                    }
                )
        rows.append(slots)
    length = max(len(slots) for slots in rows)
    nothing: Place = {
        "observation": [0.0] * 3,
        "action": [0.0] * 2,
        "reward": 0.0,
        "terminated": 0.0,
        "is_first": True,
        "mask": False,
    }
    return [slots + [nothing] * (length - len(slots)) for slots in rows]


@settings(max_examples=80, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=10),
    rows=st.integers(1, 4),
    windows=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_equals_the_naive_tape(lengths: list[int], rows: int, windows: bool, seed: int) -> None:
    buffer = filled(lengths, seed)
    rng = np.random.default_rng(seed)
    pieces = buffer.sample_windows(20, 4, rng) if windows else buffer.sample(25, rng)
    batch = pack(buffer, pieces, rows)
    layout = assign_rows([piece.length + 1 for piece in pieces], rows)
    expected = naive_rows(buffer, pieces, layout)
    for name in expected[0][0]:
        found = getattr(batch, name).tolist()
        assert found == [[step[name] for step in row] for row in expected], name
    assert batch.steps == sum(piece.length for piece in pieces) == int(batch.mask.sum())
    assert batch.padding == batch.is_first.numel() - batch.steps - len(pieces)
    assert (batch.padding == 0) or rows > 1
    assert batch.observation.dtype == batch.reward.dtype == torch.float32
    assert batch.is_first.dtype == batch.mask.dtype == torch.bool


def trajectories(batch: Batch) -> list[tuple[int, int, int]]:
    """(row, begin, steps) of every trajectory on the packed sequences, read off the flags alone."""
    found = []
    for row in range(batch.is_first.shape[0]):
        for t in range(batch.is_first.shape[1]):
            if batch.is_first[row, t] and batch.mask[row, t]:
                end = t
                while batch.mask[row, end]:
                    end += 1
                found.append((row, t, end - t))
    return found


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=10, unique=True),
    rows=st.integers(1, 4),
)
def test_every_step_appears_exactly_once(lengths: list[int], rows: int) -> None:
    buffer = filled(lengths)
    pieces = list(buffer)
    batch = pack(buffer, pieces, rows)
    seen = trajectories(batch)
    assert sorted(steps for _, _, steps in seen) == sorted(lengths)
    by_length = {piece.length: piece for piece in pieces}
    for row, begin, steps in seen:
        piece = by_length[steps]
        slots = slice(begin, begin + steps + 1)
        source = slice(piece.begin, piece.begin + steps + 1)
        np.testing.assert_array_equal(batch.observation[row, slots], buffer.observations[source])
        assert batch.is_first[row, slots].tolist() == [True] + [False] * steps
        assert bool(batch.terminated[row, slots].sum()) == piece.terminated
    found = batch.reward[batch.mask].tolist()
    stored = [float(r) for p in pieces for r in buffer.rewards[p.begin : p.begin + p.length]]
    assert sorted(found) == sorted(stored)


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.integers(1, 50), min_size=1, max_size=20), rows=st.integers(0, 6))
def test_rows_share_the_load(sizes: list[int], rows: int) -> None:
    layout = assign_rows(sizes, rows)
    assert sorted(i for row in layout for i in row) == list(range(len(sizes)))
    assert len(layout) == min(max(rows, 1), len(sizes))
    loads = [sum(sizes[i] for i in row) for row in layout]
    assert max(loads) - min(loads) <= max(sizes)
    if rows > 1:  # the longest-first rule is never worse than 4/3 of the best layout
        least = max(max(sizes), sum(sizes) / rows)
        assert max(loads) <= 4 / 3 * least + max(sizes) / 3


def test_one_row_keeps_the_order() -> None:
    assert assign_rows([3, 9, 1, 5], 1) == [[0, 1, 2, 3]]


@pytest.mark.parametrize("terminated", [False, True])
def test_a_window_without_the_end_is_not_terminated(terminated: bool) -> None:
    buffer = ReplayBuffer(50, 1, 1)
    numbers = np.arange(11, dtype=np.float32)
    buffer.add(Trajectory(numbers[:, None], numbers[:-1, None], numbers[:-1].copy(), terminated))
    (whole,) = buffer
    inner = EpisodeSlice(whole.begin + 2, 4, terminated=False)
    last = EpisodeSlice(whole.begin + 6, 4, terminated)
    batch = pack(buffer, [inner, last])
    assert batch.observation[0, :, 0].tolist() == [2, 3, 4, 5, 6, 6, 7, 8, 9, 10]
    assert batch.action[0, :, 0].tolist() == [2, 3, 4, 5, 0, 6, 7, 8, 9, 0]
    assert batch.terminated[0].tolist() == [0.0] * 8 + [float(terminated), 0.0]


def test_a_batch_is_a_copy() -> None:
    buffer = filled([4])
    batch = pack(buffer, list(buffer))
    batch.observation.zero_()
    batch.action.zero_()
    batch.reward.zero_()
    assert np.all(buffer.observations[:4] != 0) and np.all(buffer.rewards[:4] != 0)


def test_on_the_cpu_a_batch_is_not_moved() -> None:
    buffer = filled([4, 2])
    batch = pack(buffer, list(buffer))
    assert batch.to(torch.device("cpu")) is batch
    moved = batch.to(torch.device("meta"))
    assert moved.observation.device.type == moved.mask.device.type == "meta"
    assert (moved.steps, moved.padding) == (batch.steps, batch.padding)
