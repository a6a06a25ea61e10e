"""A finished episode is whole and cannot be changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from resel.data import Trajectory, constant_columns
from resel.errors import BadInputError


def make(
    observations: int, actions: int, rewards: int, extras: dict[str, Any] | None = None
) -> Trajectory:
    return Trajectory(
        np.zeros((observations, 2), np.float32),
        np.zeros((actions, 1), np.float32),
        np.zeros(rewards, np.float32),
        terminated=True,
        extras=extras or {},
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
    columns = {"task": np.ones((4, 1), np.float32), "hidden": np.ones((4, 2), np.float32)}
    trajectory = make(4, 3, 3, columns)
    for array in (
        *(trajectory.observations, trajectory.actions, trajectory.rewards),
        *trajectory.extras.values(),
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(TypeError):
        trajectory.extras["other"] = columns["task"]  # type: ignore[index]
    columns.clear()
    assert list(trajectory.extras) == ["task", "hidden"]
    with pytest.raises(AttributeError):
        trajectory.terminated = False  # type: ignore[misc]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            np.zeros((3, 2)),
            r"'signal' of a trajectory of 3 steps has shape \(3, 2\).*each of its 4",
        ),
        (np.zeros((5, 2)), r"shape \(5, 2\)"),
        (np.zeros(4), r"shape \(4,\)"),
        (np.zeros((4, 1, 1)), r"shape \(4, 1, 1\)"),
        (np.full((4, 1), np.nan), "'signal' of a trajectory holds NaN or infinity"),
        (np.full((4, 1), -np.inf), "holds NaN or infinity"),
    ],
)
def test_columns_that_cannot_be(column: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        make(4, 3, 3, {"signal": column.astype(np.float32)})


def test_columns_that_stay_the_same() -> None:
    columns = constant_columns({"a": np.float32([7]), "b": np.float32([1, 2])}, 3)
    assert columns["a"].tolist() == [[7]] * 4 and columns["b"].tolist() == [[1, 2]] * 4
    assert make(4, 3, 3, columns).extras["b"].shape == (4, 2)
    assert constant_columns({}, 3) == {} and make(4, 3, 3).extras == {}
