"""The vectorised exponential over the whole range of float32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numba import njit

from resel.networks.ops.cpu.numba_math import FASTMATH, exp

SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)
OVERFLOW = math.log(float(np.finfo(np.float32).max))  # 88.72


@njit(fastmath=FASTMATH, error_model="numpy")
def exp_all(x: Any, y: Any) -> None:
    for i in range(x.shape[0]):
        y[i] = exp(x[i])


@njit(fastmath=FASTMATH, error_model="numpy")
def sum_of_exp(x: Any) -> Any:
    total = x.dtype.type(0)
    for i in range(x.shape[0]):
        total += exp(x[i])
    return total


def our_exp(values: Any, dtype: Any = np.float32) -> Any:
    x = np.asarray(values, dtype)
    y = np.empty_like(x)
    exp_all(x, y)
    return y


def test_ordinary_numbers() -> None:
    x = np.linspace(-87.3, 88.3, 2_000_001).astype(np.float32)
    expected = np.exp(x.astype(np.float64))
    error = np.abs(our_exp(x) / expected - 1)
    assert error.max() < 4e-7
    assert error[np.abs(x) < 10].max() < 1.3e-7


def test_near_zero_and_at_it() -> None:
    tiny = np.concatenate([10.0 ** np.arange(-44.0, -1.0, 0.25), [0.0]]).astype(np.float32)
    x = np.concatenate([tiny, -tiny])
    np.testing.assert_allclose(our_exp(x), np.exp(x.astype(np.float64)), rtol=1.2e-7)
    assert our_exp([0.0, -0.0]).tolist() == [1.0, 1.0]


def test_any_bit_pattern() -> None:
    """Every float32 there is, by a stride that is prime: signs, exponents, NaNs, subnormals."""
    x = np.arange(0, 2**32, 3571, dtype=np.uint64).astype(np.uint32).view(np.float32)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        y, expected = our_exp(x), np.exp(x.astype(np.float64))
        rounded = expected.astype(np.float32)
        error = np.abs(y / expected - 1)
    assert np.array_equal(np.isnan(y), np.isnan(x))
    number = ~np.isnan(x)
    big = number & (x > OVERFLOW - 0.4)  # infinity may come a little before it must
    assert np.all(np.isinf(y[big]) | (error[big] < 4e-7))
    assert np.all(y[number & (x > OVERFLOW)] == np.inf)
    small = number & (rounded < SMALLEST_NORMAL)  # zero may come a little before it must
    assert np.all((y[small] >= 0) & (np.abs(y[small] - expected[small]) < SMALLEST_NORMAL))
    assert np.all(y[number & (x < -104)] == 0)
    normal = number & ~big & ~small
    assert error[normal].max() < 4e-7


@pytest.mark.parametrize("length", [1, 3, 8, 16, 33])  # scalar remainders and whole vectors
def test_special_values_in_every_lane(length: int) -> None:
    for lane in range(length):
        for value, expected in ((-np.inf, 0.0), (np.inf, np.inf), (-1e30, 0.0), (1e30, np.inf)):
            x = np.zeros(length, np.float32)
            x[lane] = value
            wanted = np.ones(length, np.float32)
            wanted[lane] = expected
            np.testing.assert_array_equal(our_exp(x), wanted)
        x = np.zeros(length, np.float32)
        x[lane] = np.nan
        assert np.isnan(our_exp(x)).tolist() == [i == lane for i in range(length)]
        assert np.isnan(sum_of_exp(x))


def test_float64_is_the_library() -> None:
    x = np.concatenate([np.linspace(-745, 709, 5001), [-np.inf, np.inf, -1e300, 1e300]])
    with np.errstate(over="ignore"):
        expected = np.exp(x)
    np.testing.assert_allclose(our_exp(x, np.float64), expected, rtol=3e-16)
    assert np.isnan(our_exp([np.nan], np.float64)[0])


def test_outside_a_kernel_it_refuses() -> None:
    with pytest.raises(TypeError, match="Numba kernels only"):
        exp(1.0)
