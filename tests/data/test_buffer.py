"""The ring of episodes against a list of all that was ever put in."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from resel.data import EpisodeSlice, ReplayBuffer, Trajectory, pack
from resel.errors import BadInputError, DamagedFileError

OBSERVATION, ACTION = 2, 3


def episode(length: int, number: int, terminated: bool = False) -> Trajectory:
    """An episode whose entries tell which one it is and which step."""
    steps = np.arange(length + 1, dtype=np.float32)
    first = np.float32(1000 * number) + steps
    return Trajectory(
        np.stack([first, -first], 1),
        np.stack([first[:-1] + 0.25, -first[:-1], first[:-1] * 0], 1).astype(np.float32),
        first[:-1] + np.float32(0.5),
        terminated,
    )


@dataclass
class EndlessTape:
    """Every episode there ever was, at its slot on a row that never ends.

    The ring is that row seen modulo its size: an episode is lost once the newest one reaches its
    first slot again, or while more than `capacity` steps are held.
    """

    slots: int
    capacity: int
    at: int = 0
    held: list[tuple[int, Trajectory]] = field(default_factory=list)

    def add(self, trajectory: Trajectory) -> None:
        size = len(trajectory) + 1
        lap, slot = divmod(self.at, self.slots)
        if slot + size > self.slots:  # episodes are not split: the rest of this lap stays empty
            self.at = (lap + 1) * self.slots
        self.held.append((self.at, trajectory))
        self.at += size
        self.held = [(begin, t) for begin, t in self.held if begin + self.slots >= self.at]
        while sum(len(t) for _, t in self.held) > self.capacity:
            self.held.pop(0)


def content(buffer: ReplayBuffer, piece: EpisodeSlice) -> tuple[np.ndarray, ...]:
    end = piece.begin + piece.length
    return (
        buffer.observations[piece.begin : end + 1],
        buffer.actions[piece.begin : end],
        buffer.rewards[piece.begin : end],
    )


def assert_holds(buffer: ReplayBuffer, expected: list[Trajectory]) -> None:
    assert len(buffer) == len(expected)
    assert buffer.steps == sum(len(t) for t in expected)
    for piece, trajectory in zip(buffer, expected, strict=True):
        assert (piece.length, piece.terminated) == (len(trajectory), trajectory.terminated)
        for found, wanted in zip(
            content(buffer, piece),
            (trajectory.observations, trajectory.actions, trajectory.rewards),
            strict=True,
        ):
            np.testing.assert_array_equal(found, wanted)


@settings(max_examples=150, deadline=None)
@given(
    capacity=st.integers(1, 80),
    # Many short episodes fill the slots before the steps, and then a long one has to wrap.
    lengths=st.lists(st.sampled_from([1, 1, 1, 2, 3, 9, 30]), min_size=1, max_size=90),
    seed=st.integers(0, 100),
)
def test_holds_what_the_endless_tape_holds(capacity: int, lengths: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    buffer = ReplayBuffer(capacity, OBSERVATION, ACTION)
    packed = EndlessTape(len(buffer.rewards), capacity)
    everything: list[Trajectory] = []
    for number, length in enumerate(lengths):
        trajectory = episode(min(length, capacity), number, bool(rng.random() < 0.5))
        buffer.add(trajectory)
        packed.add(trajectory)
        everything.append(trajectory)
        kept = [t for _, t in packed.held]
        assert_holds(buffer, kept)
        assert buffer.steps <= capacity
        newest = everything[-len(kept) :]  # without gaps: the oldest leave first
        assert all(a is b for a, b in zip(kept, newest, strict=True))
        used = sorted((p.begin, p.begin + p.length + 1) for p in buffer)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(used))
        assert used[0][0] >= 0 and used[-1][1] <= len(buffer.rewards)


def test_nothing_leaves_while_there_is_room() -> None:
    buffer = ReplayBuffer(3200, OBSERVATION, ACTION)
    episodes = [episode(40, i) for i in range(80)]  # 3200 steps and 80 last observations
    for trajectory in episodes:
        buffer.add(trajectory)
    assert_holds(buffer, episodes)
    buffer.add(episode(1, 80))
    assert_holds(buffer, [*episodes[1:], episode(1, 80)])


def test_an_episode_that_is_too_long() -> None:
    buffer = ReplayBuffer(10, OBSERVATION, ACTION)
    buffer.add(episode(4, 0))
    with pytest.raises(BadInputError, match=r"11 steps does not fit into a buffer of 10.*buffer_"):
        buffer.add(episode(11, 1))
    assert_holds(buffer, [episode(4, 0)])  # refused before anything was dropped
    buffer.add(episode(10, 2))
    assert_holds(buffer, [episode(10, 2)])


@pytest.mark.parametrize(("observation", "action"), [(3, 1), (17, 6), (376, 17)])
def test_memory_at_a_million_steps(observation: int, action: int) -> None:
    least = 4 * (observation + action + 1) * 10**6
    assert least <= ReplayBuffer.planned_bytes(10**6, observation, action) <= 1.05 * least


def test_planned_memory_is_the_memory_taken() -> None:
    for capacity in (1, 31, 32, 1000):
        buffer = ReplayBuffer(capacity, OBSERVATION, ACTION)
        taken = buffer.observations.nbytes + buffer.actions.nbytes + buffer.rewards.nbytes
        assert taken == ReplayBuffer.planned_bytes(capacity, OBSERVATION, ACTION)


def filled(lengths: list[int], capacity: int = 1000) -> ReplayBuffer:
    buffer = ReplayBuffer(capacity, OBSERVATION, ACTION)
    for number, length in enumerate(lengths):
        buffer.add(episode(length, number, terminated=number % 2 == 0))
    return buffer


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=25),
    steps=st.integers(1, 200),
    seed=st.integers(0, 10**6),
)
def test_sampling(lengths: list[int], steps: int, seed: int) -> None:
    buffer = filled(lengths)
    pieces = buffer.sample(steps, np.random.default_rng(seed))
    assert len(set(pieces)) == len(pieces)  # without replacement
    assert set(pieces) <= set(buffer)  # whole episodes
    total = sum(piece.length for piece in pieces)
    assert total >= min(steps, buffer.steps)
    assert total - pieces[-1].length < steps  # and not one more than was needed
    again = buffer.sample(steps, np.random.default_rng(seed))
    assert again == pieces


def test_every_episode_is_as_likely_as_any_other() -> None:
    buffer = filled([1, 50, 3, 20, 1])
    rng = np.random.default_rng(0)
    first = [buffer.sample(1, rng)[0] for _ in range(5000)]
    for piece in buffer:
        assert 880 < first.count(piece) < 1120  # 1000 expected, deviation 28


def test_sampling_from_an_empty_buffer() -> None:
    assert ReplayBuffer(10, OBSERVATION, ACTION).sample(5, np.random.default_rng(0)) == []


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=15),
    steps=st.integers(1, 100),
    window=st.integers(1, 12),
    seed=st.integers(0, 10**6),
)
def test_windows(lengths: list[int], steps: int, window: int, seed: int) -> None:
    buffer = filled(lengths)
    pieces = buffer.sample_windows(steps, window, np.random.default_rng(seed))
    total = sum(piece.length for piece in pieces)
    assert total >= steps > total - pieces[-1].length
    for piece in pieces:
        (home,) = [e for e in buffer if e.begin <= piece.begin < e.begin + e.length + 1]
        end = piece.begin + piece.length
        assert end <= home.begin + home.length
        assert piece.length == min(window, home.length)
        assert piece.terminated == (home.terminated and end == home.begin + home.length)


def test_windows_are_uniform_over_steps() -> None:
    buffer = filled([2, 30, 8])
    rng = np.random.default_rng(0)
    pieces = [buffer.sample_windows(1, 2, rng)[0] for _ in range(8000)]
    for home in buffer:
        inside = [p for p in pieces if home.begin <= p.begin < home.begin + home.length]
        share = home.length / 40
        assert abs(len(inside) - 8000 * share) < 5 * (8000 * share * (1 - share)) ** 0.5
        offsets = np.bincount([p.begin - home.begin for p in inside])
        assert len(offsets) == home.length - 1
        assert offsets.min() > 0.6 * offsets.mean()


@settings(max_examples=60, deadline=None)
@given(
    capacity=st.integers(5, 60),
    lengths=st.lists(st.integers(1, 30), max_size=15),
    more=st.lists(st.integers(1, 30), max_size=15),
)
def test_a_restored_buffer_goes_on_as_the_old_one(
    capacity: int, lengths: list[int], more: list[int]
) -> None:
    old, new = (
        ReplayBuffer(capacity, OBSERVATION, ACTION),
        ReplayBuffer(capacity, OBSERVATION, ACTION),
    )
    new.add(episode(min(3, capacity), 99))
    for number, length in enumerate(lengths):
        old.add(episode(min(length, capacity), number, number % 2 == 0))
    data = [block.copy() for piece in old for block in old.blocks(piece)]
    sizes = old.bytes_of(np.array([piece.length for piece in old], np.int64))
    assert sum(block.nbytes for block in data) == sizes.sum()
    new.restore(new.read_index(old.state()), reading(data))
    for number, length in enumerate(more, start=len(lengths)):
        for buffer in (old, new):
            buffer.add(episode(min(length, capacity), number))
    assert list(old) == list(new)
    assert old.steps == new.steps
    for mine, yours in zip(old, new, strict=True):
        for a, b in zip(content(old, mine), content(new, yours), strict=True):
            np.testing.assert_array_equal(a, b)
    if more or lengths:
        rngs = [np.random.default_rng(3) for _ in range(2)]
        assert old.sample(20, rngs[0]) == new.sample(20, rngs[1])


def reading(blocks: list[np.ndarray]) -> Callable[[np.ndarray], None]:
    left = iter(blocks)

    def read(target: np.ndarray) -> None:
        target[...] = next(left)

    return read


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"begin": [-1, 6, 14]}, "does not fit"),
        ({"begin": [0, 5, 14]}, "does not fit"),  # one begins before the end of another
        ({"begin": [0, 6, 1028]}, "does not fit"),
        ({"begin": [0, 6, 2**62]}, "does not fit"),
        ({"length": [5, 0, 3]}, "does not fit"),
        ({"length": [5, 2**62, 3]}, "does not fit"),
        ({"length": [5, 7]}, "wrong form"),
        ({"length": [[5, 7, 3]]}, "wrong form"),
        ({"length": [5.0, 7.0, 3.0]}, "wrong form"),
        ({"terminated": [1, 0, 1]}, "wrong form"),
    ],
)
def test_an_index_that_cannot_be_is_refused(change: dict[str, Any], message: str) -> None:
    index = filled([5, 7, 3]).state() | {name: np.array(v) for name, v in change.items()}
    with pytest.raises(DamagedFileError, match=message):
        ReplayBuffer(1000, OBSERVATION, ACTION).read_index(index)


def test_an_index_of_a_larger_buffer_is_refused() -> None:
    with pytest.raises(DamagedFileError, match="does not fit buffer_steps"):
        ReplayBuffer(14, OBSERVATION, ACTION).read_index(filled([5, 7, 3]).state())


def test_a_restore_that_fails_leaves_an_empty_buffer() -> None:
    old, new = filled([5, 7, 3]), filled([4])
    data = [block.copy() for piece in old for block in old.blocks(piece)]
    data[4][2] = np.nan
    with pytest.raises(DamagedFileError, match="NaN"):
        new.restore(new.read_index(old.state()), reading(data))
    assert len(new) == new.steps == 0
    new.add(episode(3, 1))
    assert_holds(new, [episode(3, 1)])


def test_after_a_restore_only_what_was_restored_is_drawn() -> None:
    old, new = filled([5, 7]), filled([40, 40, 40])
    rng = np.random.default_rng(0)
    new.sample_steps(10, rng)
    new.uniform_windows(10, 3, rng)
    data = [block.copy() for piece in old for block in old.blocks(piece)]
    new.restore(new.read_index(old.state()), reading(data))
    assert new.sample_steps(200, rng)[0].max() < 13
    assert max(piece.begin + piece.length for piece in new.uniform_windows(200, 3, rng)) <= 13


def test_windows_do_not_go_through_all_episodes_for_every_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    buffer = ReplayBuffer(200, OBSERVATION, ACTION)
    for number in range(20):
        buffer.add(episode(5 + number % 3, number))
    made: list[int] = []
    state = buffer.state
    monkeypatch.setattr(buffer, "state", lambda: made.append(1) or state())
    rng = np.random.default_rng(1)
    for _ in range(10):
        buffer.sample_windows(30, 4, rng)
    assert len(made) == 1
    buffer.add(episode(6, 20))
    buffer.sample_windows(30, 4, rng)
    assert len(made) == 2


def pictures(length: int, number: int) -> Trajectory:
    """The same with observations of five bytes each."""
    steps = (np.arange(length + 1)[:, None] + 50 * number + np.arange(5)).astype(np.uint8)
    return Trajectory(
        steps, np.zeros((length, 2), np.float32), np.ones(length, np.float32), terminated=False
    )


def test_bytes_stay_bytes() -> None:
    sizes = (40, 5, 2, {"hidden": 3}, np.uint8)
    told = {"hidden": 3}
    buffer = ReplayBuffer(*sizes)
    arrays = (buffer.observations, buffer.actions, buffer.rewards, *buffer.columns.values())
    assert ReplayBuffer.planned_bytes(*sizes) == sum(array.nbytes for array in arrays)
    for number, length in enumerate((9, 4)):
        one = pictures(length, number)
        columns = {name: np.ones((length + 1, size), np.float32) for name, size in told.items()}
        buffer.add(Trajectory(one.observations, one.actions, one.rewards, False, columns))
    saved = [[block.tobytes() for block in buffer.blocks(piece)] for piece in buffer]
    lengths = np.array([9, 4])
    assert buffer.bytes_of(lengths).tolist() == [sum(map(len, blocks)) for blocks in saved]
    batch = pack(buffer, list(buffer), 2)
    assert batch.observation.dtype == torch.uint8
    np.testing.assert_array_equal(batch.observation[0, :10], pictures(9, 0).observations)
    assert buffer.episode(1).observations.dtype == np.uint8

    chunks = iter(chunk for blocks in saved for chunk in blocks)
    again = ReplayBuffer(*sizes)
    again.restore(
        again.read_index(buffer.state()),
        lambda block: block.data.cast("B").__setitem__(slice(None), next(chunks)),
    )
    assert [[b.tobytes() for b in again.blocks(piece)] for piece in again] == saved


def test_bytes_and_numbers_are_not_mixed_up() -> None:
    bytes_, floats = ReplayBuffer(40, 5, 2, dtype=np.uint8), ReplayBuffer(40, 5, 2)
    bytes_.add(pictures(4, 0))
    with pytest.raises(
        BadInputError, match="observations of uint8 does not fit into a buffer of f"
    ):
        floats.add(pictures(4, 0))
    with pytest.raises(DamagedFileError, match="show none: continue it with the environment"):
        floats.read_index(bytes_.state())
    with pytest.raises(DamagedFileError, match="images as float32, as earlier versions did"):
        bytes_.read_index(floats.state())
