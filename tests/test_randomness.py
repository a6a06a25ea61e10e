"""Named streams: independent, repeatable, and continued from plain data."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from resel.errors import DamagedFileError
from resel.randomness import (
    draw_seed,
    numpy_state,
    numpy_stream,
    restore_numpy,
    stream_seed,
    torch_stream,
)

NAMES = ["weights", "learner-noise", "target-heads", "replay", "collector"]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**64), name=st.text(max_size=20))
def test_the_same_name_and_seed_give_the_same_numbers(seed: int, name: str) -> None:
    first, second = (numpy_stream(seed, name) for _ in range(2))
    assert np.array_equal(first.normal(size=5), second.normal(size=5))
    one, two = (torch.randn(5, generator=torch_stream(seed, name)) for _ in range(2))
    assert torch.equal(one, two)


def test_numbers_are_those_of_every_other_day() -> None:
    """A saved seed must mean the same in a later version."""
    assert stream_seed(1, "weights").entropy == [1, 449999704]
    assert numpy_stream(1, "replay").integers(10**6, size=3).tolist() == [119316, 523861, 873550]
    assert torch_stream(1, "weights").initial_seed() == 139911415592349810


def test_streams_differ_by_name_and_by_seed() -> None:
    keys = list(itertools.product(range(20), NAMES))
    numpy_draws = {tuple(numpy_stream(s, n).integers(2**60, size=2)) for s, n in keys}
    torch_seeds = {torch_stream(s, n).initial_seed() for s, n in keys}
    assert len(numpy_draws) == len(torch_seeds) == len(keys)


def test_streams_are_not_correlated() -> None:
    draws = np.array([numpy_stream(1, name).normal(size=20_000) for name in NAMES])
    correlation = np.corrcoef(draws) - np.eye(len(NAMES))
    assert np.abs(correlation).max() < 0.03  # deviation 0.007


def test_drawing_from_one_leaves_the_others() -> None:
    first, second = numpy_stream(1, "a"), numpy_stream(1, "b")
    expected = numpy_stream(1, "b").normal(size=3)
    first.normal(size=100)
    assert np.array_equal(second.normal(size=3), expected)


def test_the_global_generators_are_left_alone() -> None:
    torch_before = torch.get_rng_state()
    numpy_before = np.random.get_state()[1].tolist()  # type: ignore[index, union-attr]
    torch.randn(3, generator=torch_stream(1, "x"))
    numpy_stream(1, "x").normal()
    assert torch.equal(torch.get_rng_state(), torch_before)
    assert np.random.get_state()[1].tolist() == numpy_before  # type: ignore[index, union-attr]


@settings(deadline=None)
@given(drawn=st.integers(0, 50), whole=st.booleans())
def test_a_stream_continues_after_json(drawn: int, whole: bool) -> None:
    old, new = numpy_stream(3, "x"), numpy_stream(99, "other")
    old.normal(size=drawn)
    if whole:
        old.integers(7, dtype=np.uint32)  # leaves half a draw behind, which is part of the state
    restore_numpy(new, json.loads(json.dumps(numpy_state(old))))
    assert new.integers(2**32, dtype=np.uint32) == old.integers(2**32, dtype=np.uint32)
    assert np.array_equal(new.normal(size=10), old.normal(size=10))


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"bit_generator": "MT19937"},
        {
            "bit_generator": "PCG64",
            "state": {"state": "x", "inc": 1},
            "has_uint32": 0,
            "uinteger": 0,
        },
        {"bit_generator": "PCG64"},
    ],
)
def test_a_damaged_state_is_refused(state: dict[str, object]) -> None:
    with pytest.raises(DamagedFileError, match="random stream"):
        restore_numpy(numpy_stream(1, "x"), state)


def test_seeds_for_environments() -> None:
    generator = numpy_stream(1, "x")
    seeds = [draw_seed(generator) for _ in range(1000)]
    assert all(type(seed) is int and 0 <= seed < 2**31 for seed in seeds)
    assert len(set(seeds)) > 995
