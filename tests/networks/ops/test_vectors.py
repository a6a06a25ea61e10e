"""Vector operations of the kernels, lane by lane."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from resel.networks.ops.cpu.numba_math import kernel
from resel.networks.ops.cpu.vectors import (
    LANES,
    exp,
    exp2,
    expm1,
    larger,
    load,
    load_first,
    log1p,
    splat,
    spread,
    store,
    store_first,
    times_exp2,
    total,
)

DTYPES = [np.float32, np.float64]
ULP = {np.float32: 2.0**-23, np.float64: 2.0**-52}


@kernel
def exp_all(x: Any, y: Any) -> None:
    for i in range(0, len(x), LANES):
        store(y, i, exp(load(x, i)))


@kernel
def exp2_all(x: Any, y: Any) -> None:
    for i in range(0, len(x), LANES):
        store(y, i, exp2(load(x, i)))


@kernel
def expm1_all(x: Any, y: Any) -> None:
    for i in range(0, len(x), LANES):
        store(y, i, expm1(load(x, i)))


@kernel
def log1p_all(x: Any, y: Any) -> None:
    for i in range(0, len(x), LANES):
        store(y, i, log1p(load(x, i)))


@kernel
def larger_of(x: Any, y: Any, out: Any) -> None:
    store(out, 0, larger(load(x, 0), load(y, 0)))


@kernel
def copy_first(x: Any, count: int, rest: Any, y: Any) -> None:
    """The first lanes of x go to y, then all lanes of what was loaded to rest."""
    v = load_first(x, 0, count)
    store_first(y, 0, v, count)
    store_first(rest, 0, v, LANES)


@kernel
def times_exp2_all(x: Any, y: Any) -> None:
    """2^x times three halves."""
    factor = splat(x.dtype.type(1.5))
    for i in range(0, len(x), LANES):
        store(y, i, times_exp2(factor, load(x, i)))


@kernel
def spread_from(x: Any, at: int, y: Any) -> None:
    store(y, 0, spread(x, at))


@kernel
def arithmetic(x: Any, y: Any, scalar: Any, out: Any) -> None:
    a, b, c = load(x, 0), load(y, 0), splat(scalar)
    store(out, 0, a + b)
    store(out, LANES, a - b)
    store(out, 2 * LANES, a * c)
    store(out, 3 * LANES, a / b)


@kernel
def total_from(x: Any, at: int) -> Any:
    return total(load(x, at))


def our_exp(values: Any, dtype: Any, function: Any = exp_all) -> Any:
    """exp, or another function, of any number of values."""
    x = np.zeros(-(-len(values) // LANES) * LANES, dtype)
    x[: len(values)] = values
    y = np.empty_like(x)
    function(x, y)
    return y[: len(values)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_exp_of_ordinary_numbers(dtype: Any) -> None:
    low, high = (-87.3, 88.72) if dtype == np.float32 else (-708.3, 709.78)
    x = np.concatenate([np.linspace(low, high, 500_001), np.linspace(-2, 2, 100_001)])
    x = x.astype(dtype)
    expected = np.exp(x.astype(np.longdouble))
    error = np.abs(our_exp(x, dtype).astype(np.longdouble) / expected - 1)
    near_overflow = x > high - 0.36  # infinity may come half a power of two early
    assert error[~near_overflow].max() < ULP[dtype]
    assert np.all((error[near_overflow] < ULP[dtype]) | np.isinf(error[near_overflow]))
    assert our_exp([0.0, -0.0], dtype).tolist() == [1.0, 1.0]


def test_exp_of_any_float32() -> None:
    """Every bit pattern there is, by a stride that is prime."""
    x = np.arange(0, 2**32, 3571, dtype=np.uint64).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        y, expected = our_exp(x, np.float32), np.exp(x.astype(np.float64))
        rounded = expected.astype(np.float32)
        error = np.abs(y / expected - 1)
    assert np.array_equal(np.isnan(y), np.isnan(x))
    number = ~np.isnan(x)
    assert np.all(np.isinf(y[np.isinf(rounded)]))
    assert not np.any(np.isinf(y[number & (x < 88.36)]))
    small = number & (rounded < np.finfo(np.float32).tiny)  # zero may come a little early
    assert np.all((y[small] >= 0) & (np.abs(y[small] - expected[small]) < 1.2e-38))
    assert np.all(y[number & (x < -104)] == 0)
    normal = number & ~small & np.isfinite(rounded)
    assert error[normal & (x < 88.36)].max() < ULP[np.float32]


def test_exp_at_the_ends_of_float64() -> None:
    x = [-1e308, -746.0, -709.0, 709.79, 1e308]
    assert our_exp(x, np.float64).tolist() == [0.0, 0.0, 0.0, math.inf, math.inf]
    subnormal = np.linspace(-710, -708.4, 1000)
    assert np.all(np.abs(our_exp(subnormal, np.float64) - np.exp(subnormal)) < 2.3e-308)


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values_in_every_lane(dtype: Any) -> None:
    for lane in range(LANES):
        for value, expected in ((-np.inf, 0.0), (np.inf, np.inf)):
            x, wanted = np.zeros(LANES), np.ones(LANES)
            x[lane], wanted[lane] = value, expected
            np.testing.assert_array_equal(our_exp(x, dtype), wanted)
        x = np.zeros(LANES)
        x[lane] = np.nan
        assert np.isnan(our_exp(x, dtype)).tolist() == [i == lane for i in range(LANES)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, LANES)).astype(dtype)
    out = np.empty(4 * LANES, dtype)
    arithmetic(x, y, dtype(1.7), out)
    expected = np.concatenate([x + y, x - y, x * dtype(1.7), x / y])
    np.testing.assert_allclose(out, expected, rtol=2 * ULP[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_division_keeps_infinity_and_nan(dtype: Any) -> None:
    x, y = np.ones(LANES, dtype), np.ones(LANES, dtype)
    x[:4], y[:4] = [1, -1, 0, np.inf], [0, 0, 0, np.inf]
    out = np.empty(4 * LANES, dtype)
    arithmetic(x, y, dtype(1), out)
    quotient = out[3 * LANES :]
    assert quotient[:2].tolist() == [np.inf, -np.inf]
    assert np.isnan(quotient[2:4]).all() and np.all(quotient[4:] == 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_total_from_any_place(dtype: Any) -> None:
    x = np.random.default_rng(0).normal(size=3 * LANES).astype(dtype)
    for at in range(2 * LANES):
        expected = x[at : at + LANES].astype(np.float64).sum()
        assert total_from(x, at) == pytest.approx(expected, abs=20 * ULP[dtype])
    x[LANES + 3] = np.nan
    assert [bool(np.isnan(total_from(x, at))) for at in (0, 3, 4, LANES, LANES + 4)] == [
        False,
        False,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(("function", "factor"), [(exp2_all, 1.0), (times_exp2_all, 1.5)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_exp2(dtype: Any, function: Any, factor: float) -> None:
    """In plain vectors, and with the instructions that some machines have for it."""
    reach = 125.9 if dtype == np.float32 else 1021.9
    x = np.concatenate([np.linspace(-reach, reach, 200_001), np.linspace(-2, 2, 100_001)])
    x = x.astype(dtype)
    expected = factor * np.exp2(x.astype(np.longdouble))
    error = np.abs(our_exp(x, dtype, function) / expected - 1)
    assert error.max() < 2 * ULP[dtype]
    ends = [0.0, -0.0, -1e30, -math.inf, 1e30, math.inf, math.nan]
    y = our_exp(ends, dtype, function)
    assert y[:6].tolist() == [factor, factor, 0.0, 0.0, math.inf, math.inf] and np.isnan(y[6])
    powers = np.arange(-100, 101)
    assert np.array_equal(our_exp(powers, dtype, function), factor * 2.0**powers)


@pytest.mark.parametrize("dtype", DTYPES)
def test_spread(dtype: Any) -> None:
    x = np.arange(20, dtype=dtype)
    y = np.zeros(LANES, dtype)
    spread_from(x, 17, y)
    assert y.tolist() == [17] * LANES


@pytest.mark.parametrize("dtype", DTYPES)
def test_expm1_below_nought(dtype: Any) -> None:
    x = -np.concatenate([np.logspace(-35, 2, 200_001), np.linspace(0.01, 2, 100_001)])
    x = x.astype(dtype)
    expected = np.expm1(x.astype(np.longdouble))
    error = np.abs(our_exp(x, dtype, expm1_all).astype(np.longdouble) / expected - 1)
    assert error.max() < 2 * ULP[dtype]
    y = our_exp([0.0, -0.0, -1e30, -math.inf, math.nan], dtype, expm1_all)
    assert y[:4].tolist() == [0.0, 0.0, -1.0, -1.0] and np.isnan(y[4])


@pytest.mark.parametrize("dtype", DTYPES)
def test_log1p_from_nought_to_one(dtype: Any) -> None:
    x = np.concatenate([np.logspace(-37, 0, 200_001), np.linspace(0, 1, 100_001)[1:]])
    x = x.astype(dtype)
    expected = np.log1p(x.astype(np.longdouble))
    error = np.abs(our_exp(x, dtype, log1p_all).astype(np.longdouble) / expected - 1)
    assert error.max() < 3 * ULP[dtype]
    y = our_exp([0.0, -0.0, math.nan], dtype, log1p_all)
    assert y[:2].tolist() == [0.0, 0.0] and np.isnan(y[2])


@pytest.mark.parametrize("dtype", DTYPES)
def test_larger(dtype: Any) -> None:
    x, y, out = np.zeros(LANES, dtype), np.zeros(LANES, dtype), np.empty(LANES, dtype)
    x[:5], y[:5] = [1, -1, np.inf, np.nan, 1], [2, -2, 5, 3, np.nan]
    larger_of(x, y, out)
    assert out[:4].tolist() == [2, -1, np.inf, 3] and np.isnan(out[4]) and np.all(out[5:] == 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_first_lanes(dtype: Any) -> None:
    for count in range(LANES + 1):
        x = np.arange(1, LANES + 1, dtype=dtype)
        y, rest = np.full(LANES, -1, dtype), np.full(LANES, -1, dtype)
        copy_first(x, count, rest, y)
        assert y.tolist() == [*range(1, count + 1), *[-1] * (LANES - count)]
        assert rest.tolist() == [*range(1, count + 1), *[0] * (LANES - count)]
