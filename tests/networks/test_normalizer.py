"""Running statistics equal those of everything seen, however it was split."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from resel.networks import ObservationNormalizer


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 20), min_size=1, max_size=8),
    offset=st.sampled_from([0.0, 1e3]),
    seed=st.integers(0, 10**6),
)
def test_statistics_do_not_depend_on_the_split(sizes: list[int], offset: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [(offset + rng.normal(size=(n, 3)) * [1, 5, 0.1]).astype(np.float32) for n in sizes]
    normalizer = ObservationNormalizer(3, enabled=True)
    for part in parts:
        normalizer.update(part)
    seen = np.concatenate(parts).astype(np.float64)
    assert normalizer.count == len(seen)
    if len(seen):
        np.testing.assert_allclose(normalizer.mean, seen.mean(0), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(normalizer.deviation, seen.std(0), rtol=1e-6, atol=1e-9)


def test_output_is_standard_and_clipped() -> None:
    rng = np.random.default_rng(0)
    seen = (4 + 3 * rng.normal(size=(5000, 2))).astype(np.float32)
    normalizer = ObservationNormalizer(2, enabled=True)
    normalizer.update(seen)
    scaled = normalizer(torch.from_numpy(seen))
    assert scaled.dtype == torch.float32
    torch.testing.assert_close(scaled.mean(0), torch.zeros(2), rtol=0, atol=1e-3)
    torch.testing.assert_close(scaled.std(0), torch.ones(2), rtol=1e-3, atol=0)
    assert normalizer(torch.tensor([[1e6, -1e6]])).tolist() == [[10.0, -10.0]]


def test_a_constant_entry_gives_zero() -> None:
    normalizer = ObservationNormalizer(2, enabled=True)
    normalizer.update(np.full((10, 2), 7, np.float32))
    assert normalizer(torch.full((1, 2), 7.0)).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("seen", [0, 5])
def test_off_it_changes_nothing(seen: int) -> None:
    normalizer = ObservationNormalizer(2, enabled=False)
    normalizer.update(np.ones((seen, 2), np.float32))
    x = torch.tensor([[1e9, -3.0]])
    assert normalizer(x) is x
    assert normalizer.count == 0


def test_before_anything_was_seen_it_only_clips() -> None:
    normalizer = ObservationNormalizer(2, enabled=True)
    torch.testing.assert_close(
        normalizer(torch.tensor([[0.5, -2.0]])), torch.tensor([[0.5, -2.0]]), rtol=1e-5, atol=0
    )


def test_statistics_are_saved() -> None:
    first, second = (ObservationNormalizer(2, enabled=True) for _ in range(2))
    first.update(np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32))
    second.load_state_dict(first.state_dict())
    more = np.random.default_rng(1).normal(size=(20, 2)).astype(np.float32)
    for normalizer in (first, second):
        normalizer.update(more)
    assert all(
        torch.equal(a, b)
        for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    )
