"""Steps drawn by their priorities, while the ring goes round."""

from __future__ import annotations

import numpy as np
import pytest

from resel.data import Priorities, PrioritizedTransitions, ReplayBuffer, Trajectory

CAPACITY = 20


def episode(length: int, number: float, terminated: bool = False) -> Trajectory:
    """Observations that tell the episode and the step."""
    observations = number + np.arange(length + 1, dtype=np.float32)[:, None] / 100
    actions, rewards = np.zeros((length, 1), np.float32), np.full(length, number, np.float32)
    return Trajectory(observations, actions, rewards, terminated)


def store(buffer: ReplayBuffer, priorities: Priorities, trajectory: Trajectory) -> int:
    """Add an episode to both, as the loop does; where it begins."""
    buffer.add(trajectory)
    priorities.add()
    return list(buffer)[-1].begin


def shares(priorities: Priorities, buffer: ReplayBuffer) -> np.ndarray:
    drawn = priorities.draw(buffer, 40_000, np.random.default_rng(0))
    return np.bincount(drawn, minlength=len(buffer.rewards)) / 40_000


def test_steps_are_drawn_in_proportion_and_new_ones_as_often_as_the_likeliest() -> None:
    buffer, priorities = ReplayBuffer(CAPACITY, 1, 1), Priorities(CAPACITY)
    first = store(buffer, priorities, episode(3, 1.0))
    np.testing.assert_allclose(shares(priorities, buffer)[:4], [1 / 3, 1 / 3, 1 / 3, 0], atol=0.01)
    priorities.set(first + np.arange(2), np.array([4.0, 2.0], np.float32))
    second = store(buffer, priorities, episode(2, 2.0))
    expected = np.zeros(len(buffer.rewards))
    expected[first : first + 3], expected[second : second + 2] = [4, 2, 1], 4
    np.testing.assert_allclose(shares(priorities, buffer), expected / expected.sum(), atol=0.01)


def test_steps_that_have_left_are_not_drawn_and_leave_nothing_to_those_in_their_place() -> None:
    buffer, priorities = ReplayBuffer(CAPACITY, 1, 1), Priorities(CAPACITY)
    rng = np.random.default_rng(1)
    for number in range(30):
        store(buffer, priorities, episode(int(rng.integers(1, 9)), float(number), number % 2 == 0))
        at = priorities.draw(buffer, 50, rng)
        assert buffer.held_steps()[at].all()
        assert buffer.held_steps().sum() == buffer.steps
        newest = list(buffer)[-1]
        inside = slice(newest.begin, newest.begin + newest.length)
        assert (priorities.values[inside] == np.float32(priorities.largest)).all()
        priorities.set(at, rng.uniform(1, 5, len(at)).astype(np.float32))
    priorities.look_for_largest()
    assert priorities.largest == priorities.values[buffer.held_steps()].max() < 5


def test_a_ring_may_be_larger_than_was_announced() -> None:
    buffer, priorities = ReplayBuffer(CAPACITY, 1, 1), Priorities(3)
    store(buffer, priorities, episode(15, 1.0))
    np.testing.assert_allclose(shares(priorities, buffer)[:15], 1 / 15, atol=0.01)


def test_a_batch_tells_which_of_its_steps_ended_a_world() -> None:
    buffer, priorities = ReplayBuffer(CAPACITY, 1, 1), Priorities(CAPACITY)
    for number in range(6):
        store(buffer, priorities, episode(5, float(number), number % 2 == 0))
    sampler = PrioritizedTransitions(200, priorities)
    assert str(sampler) == "200 single steps, by their priorities"  # as the start of a run shows it
    batch = sampler.draw(buffer, np.random.default_rng(2), len)
    now, after = batch.observation[:, 0, 0].numpy(), batch.observation[:, 1, 0].numpy()
    np.testing.assert_allclose(after - now, 0.01, atol=1e-5)
    number, step = np.floor(now + 1e-3), np.round(100 * (now % 1)) % 100
    ended = (step == 4) & (number % 2 == 0)
    np.testing.assert_array_equal(batch.terminated[:, 0].numpy(), ended.astype(np.float32))
    assert ended.any() and (step == 4).sum() > ended.sum()
    assert (buffer.rewards[list(batch.origins)] == batch.reward[:, 0].numpy()).all()


def test_what_is_restored_draws_the_same() -> None:
    buffer, old = ReplayBuffer(CAPACITY, 1, 1), Priorities(CAPACITY)
    begin = store(buffer, old, episode(6, 1.0))
    old.draw(buffer, 1, np.random.default_rng(3))
    old.set(np.array([begin]), np.array([7.0], np.float32))
    store(buffer, old, episode(4, 2.0))  # not yet looked at
    new = Priorities(CAPACITY)
    new.restore(old.state())
    drawn = [one.draw(buffer, 100, np.random.default_rng(3)) for one in (old, new)]
    np.testing.assert_array_equal(*drawn)
    assert old.state().keys() == new.state().keys()
    assert all((old.state()[name] == tensor).all() for name, tensor in new.state().items())
    spoiled = old.state()
    spoiled["priorities"][0] = -1
    with pytest.raises(ValueError, match="not positive"):
        new.restore(spoiled)
