"""Observations and actions between environments and networks."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from resel.envs import ActionSpec, ObservationSpec
from resel.errors import BadInputError, UnsupportedSpaceError

NESTED = spaces.Dict(
    {
        "pose": spaces.Tuple((spaces.Box(-1, 1, (2, 2)), spaces.Discrete(3, start=5))),
        "image": spaces.Box(0, 255, (2, 3), np.uint8),
        "keys": spaces.MultiBinary(3),
        "grid": spaces.MultiDiscrete([[2, 3], [4, 1]]),
    }
)
FLAT_SPACES = [
    spaces.Box(-np.inf, np.inf, (4,)),
    spaces.Box(-1, 1, (2, 3), np.float64),
    spaces.Box(-1, 1, ()),
    spaces.Discrete(5, start=-2),
    spaces.MultiDiscrete([2, 3], start=[1, -1]),
    spaces.MultiBinary([2, 2]),
]
ALL_SPACES = [*FLAT_SPACES, spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 1, (1,)))), NESTED]
by_name = pytest.mark.parametrize("space", ALL_SPACES, ids=lambda s: type(s).__name__)


# Observations


@by_name
def test_encoding_is_what_gymnasium_flattens(space: spaces.Space[Any]) -> None:
    spec = ObservationSpec.of(space)
    space.seed(3)
    for _ in range(20):
        obs = space.sample()
        stored = spec.encode(obs)
        assert stored.dtype == spec.dtype and stored.shape == (spec.stored_size,)
        flat = spec.numbers(stored)
        assert flat.dtype == np.float32 and flat.shape == (spec.size,)
        np.testing.assert_array_equal(flat, np.float32(spaces.flatten(space, obs)))


@by_name
def test_a_batch_is_its_rows(space: spaces.Space[Any]) -> None:
    spec = ObservationSpec.of(space)
    space.seed(4)
    rows = [space.sample() for _ in range(4)]
    batch = np.stack(rows) if space in FLAT_SPACES else rows
    assert spec.is_batch(batch)
    assert not spec.is_batch(rows[0])
    np.testing.assert_array_equal(
        spec.encode_batch(batch, 4), np.stack([spec.encode(row) for row in rows])
    )


def test_the_encoded_observation_is_a_copy() -> None:
    obs = np.zeros(3, np.float32)
    flat = ObservationSpec.of(spaces.Box(-1, 1, (3,))).encode(obs)
    obs[:] = 9
    assert not flat.any()


def test_values_beyond_the_declared_bounds_pass() -> None:
    spec = ObservationSpec.of(spaces.Box(-1, 1, (2,)))
    np.testing.assert_array_equal(spec.encode([5, -7]), [5, -7])


def test_is_batch_looks_at_the_shape() -> None:
    box = ObservationSpec.of(spaces.Box(-1, 1, (3,)))
    assert box.is_batch([[1, 2, 3]])
    assert not box.is_batch(np.zeros((2, 4)))
    assert not box.is_batch([[1, 2, 3], [1]])
    discrete = ObservationSpec.of(spaces.Discrete(3))
    assert discrete.is_batch([0, 1])
    assert not discrete.is_batch(np.array([0.0, 1.0]))
    pair = ObservationSpec.of(spaces.Tuple((spaces.Discrete(2), spaces.Discrete(2))))
    assert pair.is_batch([(0, 1)]) and not pair.is_batch((0, 1))


BOX = spaces.Box(-1, 1, (3,))
IMAGE = spaces.Box(-1, 1, (2, 2))


@pytest.mark.parametrize(
    ("space", "obs", "message"),
    [
        (BOX, np.zeros(4), r"The observation has shape \(4,\), expected \(3,\)"),
        (BOX, [0, np.nan, 0], r"observation is not finite: nan at index \(1,\) of shape \(3,\)"),
        (BOX, np.array([0, 0, 1e300]), r"not finite: inf at index \(2,\)"),
        (BOX, ["a", 1, 2], r"not an array of numbers: got list \['a', 1, 2\]"),
        (BOX, [[1], [1, 2]], "not an array of numbers"),
        (BOX, None, "is not an array of numbers: got NoneType None"),
        (IMAGE, [[0, 0], [-np.inf, 0]], r"not finite: -inf at index \(1, 0\)"),
        (spaces.Discrete(3, start=1), 0, "The observation holds 0, expected 1 to 3"),
        (spaces.Discrete(3, start=1), 4, "The observation holds 4, expected 1 to 3"),
        (spaces.Discrete(3), 1.0, r"must hold integers of shape \(\), got float 1.0"),
        (spaces.Discrete(3), [1], r"has shape \(1,\), expected \(\)"),
        (spaces.MultiDiscrete([2, 3]), [1, 3], "holds 3, expected 0 to 2"),
        (spaces.MultiDiscrete([2, 3]), [[1], [1, 2]], "must hold integers"),
        (spaces.MultiBinary(2), [0, 2], r"must hold only 0 and 1, got list \[0, 2\]"),
        (spaces.Tuple((BOX, BOX)), (np.zeros(3),), "must be a tuple of 2 parts"),
        (
            spaces.Tuple((BOX, BOX)),
            (np.zeros(3), np.full(3, np.inf)),
            r"The observation\[1\] is not finite",
        ),
        (spaces.Dict(a=BOX, b=BOX), {"a": 0, "c": 0}, r"keys \['a', 'b'\], got keys \['a', 'c'\]"),
        (spaces.Dict(a=BOX), 3, r"dict with keys \['a'\], got int 3"),
        (spaces.Dict(a=BOX), {"a": [0, 0, np.nan]}, r"The observation\['a'\] is not finite: nan"),
        (
            spaces.Dict(a=spaces.Dict(b=BOX)),
            {"a": {"b": np.zeros(2)}},
            r"observation\['a'\]\['b'\] has shape \(2,\)",
        ),
    ],
)
def test_bad_observations_are_named(space: spaces.Space[Any], obs: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        ObservationSpec.of(space).encode(obs)


@pytest.mark.parametrize(
    ("space", "obs", "message"),
    [
        (BOX, np.zeros((3, 3)), r"batch of observations has shape \(3, 3\), expected \(2, 3\)"),
        (BOX, [[0, 0, 0], [0, 0, np.nan]], r"not finite: nan at index \(1, 2\)"),
        (spaces.Discrete(3), [0, 3], "holds 3, expected 0 to 2"),
        (spaces.Discrete(3), [0], r"has shape \(1,\), expected \(2,\)"),
        (spaces.Dict(a=BOX), [{"a": np.zeros(3)}], "A batch of 2 observations of Dict"),
        (spaces.Dict(a=BOX), {"a": 1, "b": 2}, "is a list of as many observations, got dict"),
        (spaces.Dict(a=BOX), 7, "got int 7"),
        (
            spaces.Dict(a=BOX),
            [{"a": np.zeros(3)}, {"a": np.full(3, np.nan)}],
            r"The observation 1 of the batch\['a'\] is not finite",
        ),
    ],
)
def test_bad_batches_are_named(space: spaces.Space[Any], obs: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        ObservationSpec.of(space).encode_batch(obs, 2)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Text(5), "The observation space Text.* is a Text.*use Box, Discrete"),
        (spaces.Sequence(BOX), "is a Sequence"),
        (spaces.Graph(BOX, None), "is a Graph"),
        (spaces.Dict(a=spaces.Tuple((BOX, spaces.Text(2)))), r"observation\['a'\]\[1\] space Text"),
        (spaces.Box(-1, 1, (0,)), "holds no numbers at all"),
    ],
)
def test_unsupported_observation_spaces(space: spaces.Space[Any], message: str) -> None:
    with pytest.raises(UnsupportedSpaceError, match=message):
        ObservationSpec.of(space)


@by_name
def test_descriptions_survive_json_and_tell_spaces_apart(space: spaces.Space[Any]) -> None:
    data = ObservationSpec.of(space).to_json()
    assert json.loads(json.dumps(data)) == data
    assert [ObservationSpec.of(s).to_json() == data for s in ALL_SPACES].count(True) == 1


def test_bounds_matter_for_actions_only() -> None:
    one, two = spaces.Box(-1, 1, (2,)), spaces.Box(-2, 2, (2,))
    assert ObservationSpec.of(one).to_json() == ObservationSpec.of(two).to_json()
    assert ActionSpec.of(one).to_json() != ActionSpec.of(two).to_json()
    assert ActionSpec.of(one).to_json() == {
        "type": "Box",
        "shape": [2],
        "low": [-1.0, -1.0],
        "high": [1.0, 1.0],
    }


# Actions

_bound = st.floats(-1e6, 1e6, width=32)


@st.composite
def boxes(draw: st.DrawFn) -> spaces.Box:
    shape = draw(hnp.array_shapes(max_dims=2, max_side=3))
    dtype: Any = draw(st.sampled_from([np.float32, np.float64]))
    ends = [draw(hnp.arrays(np.float32, shape, elements=_bound)) for _ in range(2)]
    return spaces.Box(np.minimum(*ends).astype(dtype), np.maximum(*ends).astype(dtype), dtype=dtype)


@given(box=boxes(), data=st.data())
def test_every_internal_action_lies_in_the_box(box: spaces.Box, data: st.DataObject) -> None:
    spec = ActionSpec.of(box)
    assert (spec.discrete, spec.size, spec.stored_size) == (False, box.low.size, box.low.size)
    unit = data.draw(hnp.arrays(np.float32, spec.size, elements=st.floats(-1, 1, width=32)))
    action = spec.to_env(unit)
    assert action.dtype == box.dtype and box.contains(action)
    for sign, bound in ((1, box.high), (-1, box.low)):
        end = spec.to_env(np.full(spec.size, sign))
        np.testing.assert_allclose(end, bound, rtol=1e-6, atol=1e-9)


@given(box=boxes(), seed=st.integers(0, 1000))
def test_box_actions_come_back(box: spaces.Box, seed: int) -> None:
    spec = ActionSpec.of(box)
    box.seed(seed)
    action = box.sample()
    unit = spec.from_env(action)
    assert isinstance(unit, np.ndarray)
    assert unit.dtype == np.float32 and unit.shape == (spec.size,) and np.abs(unit).max() <= 1
    # The internal action is float32: its rounding, stretched to the width of the box, is the loss.
    scale = np.maximum(np.abs(box.low), np.abs(box.high)).astype(np.float64)
    error = np.abs(spec.to_env(unit).astype(np.float64) - action)
    assert (error <= 2.0**-22 * scale).all()


@given(unit=hnp.arrays(np.float32, 3, elements=st.floats(-1, 1, width=32)))
def test_the_unit_box_is_left_alone(unit: np.ndarray) -> None:
    spec = ActionSpec.of(spaces.Box(-1, 1, (3,)))
    np.testing.assert_array_equal(spec.to_env(unit), unit)
    np.testing.assert_array_equal(spec.from_env(unit), unit)


def test_actions_beyond_one_are_clipped_to_the_bounds() -> None:
    spec = ActionSpec.of(spaces.Box(np.array([0, -3], np.float32), np.array([1, 5], np.float32)))
    np.testing.assert_array_equal(spec.to_env([1.5, -1.5]), [1, -3])


@given(n=st.integers(1, 300), start=st.integers(-5, 5))
def test_discrete_actions_respect_start(n: int, start: int) -> None:
    space = spaces.Discrete(n, start=start)
    spec = ActionSpec.of(space)
    assert (spec.discrete, spec.size, spec.stored_size) == (True, n, 1)
    for index in {0, n // 2, n - 1}:
        action = spec.to_env(index)
        assert space.contains(action) and action == index + start
        assert spec.from_env(action) == index


@given(
    shape=st.sampled_from([(1,), (3,), (2, 2)]), data=st.data(), dtype=st.sampled_from(["i4", "i8"])
)
def test_joint_actions_are_a_bijection(
    shape: tuple[int, ...], data: st.DataObject, dtype: str
) -> None:
    nvec = data.draw(hnp.arrays(np.int64, shape, elements=st.integers(1, 4)))
    start = data.draw(hnp.arrays(np.int64, shape, elements=st.integers(-3, 3)))
    space = spaces.MultiDiscrete(nvec, start=start, dtype=np.dtype(dtype).type)
    spec = ActionSpec.of(space)
    seen = set()
    for index in range(spec.size):
        action = spec.to_env(index)
        assert space.contains(action)
        assert spec.from_env(action) == index
        seen.add(action.tobytes())
    assert len(seen) == spec.size == np.prod(nvec)


def test_stored_discrete_actions_are_understood() -> None:
    spec = ActionSpec.of(spaces.Discrete(3, start=10))
    assert spec.to_env(np.array([2.0], np.float32)) == 12


def test_samples_are_uniform_and_reproducible() -> None:
    box = ActionSpec.of(spaces.Box(0, 7, (2,)))
    draws = np.stack([box.sample(np.random.default_rng(seed)) for seed in range(500)])
    assert draws.dtype == np.float32 and np.abs(draws).max() <= 1
    np.testing.assert_allclose(draws.mean(axis=0), 0, atol=0.1)
    np.testing.assert_allclose(draws.std(axis=0), 1 / np.sqrt(3), atol=0.05)
    np.testing.assert_array_equal(draws[3], box.sample(np.random.default_rng(3)))
    rng = np.random.default_rng(0)
    discrete = ActionSpec.of(spaces.Discrete(4, start=9))
    counts = np.bincount([int(discrete.sample(rng)) for _ in range(800)])
    assert len(counts) == 4 and counts.min() > 150


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Box(-np.inf, 1, (2,)), "no bounds in some direction.*TransformAction"),
        (spaces.Box(-1, 1, (0,)), "leaves nothing to decide"),
        (spaces.Box(0, 3, (2,), np.int32), "Box of int32.*Discrete, MultiDiscrete or a float Box"),
        (spaces.MultiDiscrete([17, 17]), "has 289 combinations, more than the 256"),
        (spaces.MultiDiscrete([1000] * 30), "combinations, more than the 256"),
        (spaces.MultiBinary(3), "is a MultiBinary.*use a bounded Box"),
        (spaces.Dict(a=BOX), "is a Dict"),
    ],
)
def test_unsupported_action_spaces(space: spaces.Space[Any], message: str) -> None:
    with pytest.raises(UnsupportedSpaceError, match=message):
        ActionSpec.of(space)


@pytest.mark.parametrize(
    ("space", "action", "message"),
    [
        (BOX, np.zeros(2), r"The action has shape \(2,\), expected \(3,\)"),
        (BOX, [np.nan, 0, 0], "The action is not finite: nan"),
        (spaces.Discrete(3), 3, "There is no action 3: expected 0 to 2"),
        (spaces.Discrete(3), -1, "There is no action -1"),
        (spaces.Discrete(3), 0.5, "one whole number below 3, got float 0.5"),
        (spaces.Discrete(3), float("nan"), "one whole number below 3, got float nan"),
        (spaces.Discrete(3), [0, 1], "one whole number below 3"),
    ],
)
def test_bad_internal_actions(space: spaces.Space[Any], action: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        ActionSpec.of(space).to_env(action)


@pytest.mark.parametrize(
    ("space", "action", "message"),
    [
        (BOX, [0, 0, 1.5], r"lies outside its space: low \[-1.0, -1.0, -1.0\]"),
        (BOX, [0, 0], r"The action has shape \(2,\)"),
        (spaces.Discrete(3, start=1), 0, "The action holds 0, expected 1 to 3"),
        (spaces.MultiDiscrete([2, 2]), [0, 2], "The action holds 2, expected 0 to 1"),
    ],
)
def test_bad_environment_actions(space: spaces.Space[Any], action: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        ActionSpec.of(space).from_env(action)
