"""A finished episode is whole and cannot be changed."""

from __future__ import annotations

import numpy as np
import pytest

from resel.data import Trajectory
from resel.errors import BadInputError


def make(observations: int, actions: int, rewards: int) -> Trajectory:
    return Trajectory(
        np.zeros((observations, 2), np.float32),
        np.zeros((actions, 1), np.float32),
        np.zeros(rewards, np.float32),
        terminated=True,
    )


def test_length_is_the_number_of_steps() -> None:
    assert len(make(4, 3, 3)) == 3


@pytest.mark.parametrize("sizes", [(3, 3, 3), (5, 3, 3), (4, 2, 3), (4, 4, 3)])
def test_arrays_that_do_not_fit_together(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(BadInputError, match="4 observations and 3 actions"):
        make(*sizes)


def test_no_steps() -> None:
    with pytest.raises(BadInputError, match="at least one step"):
        make(1, 0, 0)


def test_it_cannot_be_changed() -> None:
    trajectory = make(4, 3, 3)
    for array in (trajectory.observations, trajectory.actions, trajectory.rewards):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError):
        trajectory.terminated = False  # type: ignore[misc]
