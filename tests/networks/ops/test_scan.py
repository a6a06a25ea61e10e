"""The scan against a plain loop and against the closed form of the recurrence.

Every test runs with the kernels for CPUs and with the version for devices without kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scan_cases import (
    BY_TIME,
    ON_EVERY_MACHINE,
    TENSORS,
    Case,
    assert_same,
    closed_form,
    fused,
    leaves,
    make_case,
    parts,
    results,
    scan_loop,
    strided,
    using,
)
from torch import Tensor

from resel.networks.ops.scan import selective_scan


@pytest.fixture(params=ON_EVERY_MACHINE, scope="module", autouse=True)
def kernels(request: pytest.FixtureRequest) -> Iterator[str]:
    with using(ON_EVERY_MACHINE[request.param]):
        yield request.param


optional = st.sets(st.sampled_from(["D", "z", "is_first", "initial_state"]))


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 3),
    length=st.sampled_from([0, 1, 2, 15, 16, 17, 32, 33, 70]),
    channels=st.sampled_from([1, 3, 15, 16, 17, 64, 65, 130]),
    states=st.integers(0, 6),
    starts=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    skip=optional,
    dtype=st.sampled_from([torch.float32, torch.float64]),
    layout=st.sampled_from([dict, strided, parts]),
    seed=st.integers(0, 10**6),
)
def test_equals_the_loop(
    rows: int,
    length: int,
    channels: int,
    states: int,
    starts: float,
    skip: set[str],
    dtype: torch.dtype,
    layout: Callable[[Case], Case],
    seed: int,
) -> None:
    case = make_case(rows, length, channels, states, seed=seed, starts=starts, skip=tuple(skip))
    case = {  # both sides start from the same numbers, those of the tested precision
        name: value.to(dtype) if value is not None and name != "is_first" else value
        for name, value in case.items()
    }
    found = results(fused, layout(leaves(case, dtype)))
    assert all(value.dtype == dtype for value in found.values())
    assert_same(found, results(scan_loop, leaves(case, torch.float64)), dtype)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 2),
    length=st.sampled_from([0, 1, 3, 16, 19]),
    channels=st.sampled_from([1, 3, 65]),
    states=st.integers(1, 3),
    starts=st.sampled_from([0.0, 0.2, 1.0]),
    skip=optional,
    seed=st.integers(0, 10**6),
)
def test_equals_the_closed_form(
    rows: int, length: int, channels: int, states: int, starts: float, skip: set[str], seed: int
) -> None:
    case = make_case(rows, length, channels, states, seed=seed, starts=starts, skip=tuple(skip))
    expected = results(closed_form, leaves(case, torch.float64))
    assert_same(results(fused, leaves(case, torch.float64)), expected, torch.float64)


@pytest.mark.parametrize("length", [1, 5, 18])
@pytest.mark.parametrize("skip", [(), ("D", "z", "is_first", "initial_state")])
def test_gradcheck(length: int, skip: tuple[str, ...]) -> None:
    case = leaves(make_case(2, length, 2, 2, starts=0.3, skip=skip), torch.float64)
    names = [name for name in TENSORS if case[name] is not None]

    def function(*values: Tensor) -> tuple[Tensor, Tensor]:
        return fused(**{**case, **dict(zip(names, values, strict=True))})

    assert torch.autograd.gradcheck(function, [case[name] for name in names])


def test_the_state_is_returned_only_when_asked_for() -> None:
    case = make_case(1, 3, 2, 2)
    y = selective_scan(**case)
    assert isinstance(y, Tensor)
    torch.testing.assert_close(y, fused(**case)[0], rtol=0, atol=0)


def test_a_tape_can_be_cut_and_continued() -> None:
    case = make_case(2, 50, 5, 4)
    y, state = fused(**case)
    first = {n: v[:, :23] if n in (*BY_TIME, "is_first") else v for n, v in case.items()}
    second = {n: v[:, 23:] if n in (*BY_TIME, "is_first") else v for n, v in case.items()}
    y_first, between = fused(**first)
    y_second, last = fused(**{**second, "initial_state": between})
    torch.testing.assert_close(torch.cat([y_first, y_second], 1), y)
    torch.testing.assert_close(last, state)


def test_every_place_a_start_leaves_no_memory() -> None:
    case = make_case(2, 20, 7, 3, starts=1.0, skip=("z",))
    y, _ = fused(**case)
    BC = (case["B"] * case["C"]).sum(-1, keepdim=True)
    torch.testing.assert_close(y, case["u"] * (case["delta"] * BC + case["D"]))


@pytest.mark.parametrize("layout", [strided, parts])
def test_layouts_that_are_not_contiguous(kernels: str, layout: Callable[[Case], Case]) -> None:
    case = leaves(make_case(2, 21, 6, 3), torch.float64)
    expected = results(fused, case)
    views = layout(case)
    assert not any(view.is_contiguous() for view in views.values() if view.dim() > 1)
    found = results(fused, views)
    rounding = 0.0 if kernels == "cpu" else 1e-12  # torch's products depend on the layout
    torch.testing.assert_close(found, expected, rtol=rounding, atol=rounding)


def test_expanded_inputs_and_gradients() -> None:
    case = make_case(1, 9, 4, 3, skip=("z", "initial_state"))
    row = leaves({**case, "A": case["A"][:1]}, torch.float64)
    y = selective_scan(**{**row, "A": row["A"].expand(4, -1)})
    y.sum().backward()  # an expanded gradient
    whole = leaves({**case, "A": case["A"][:1].repeat(4, 1)}, torch.float64)
    expected, _ = scan_loop(**whole)
    expected.sum().backward()
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(row["A"].grad, whole["A"].grad.sum(0, keepdim=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1e4, 1e30])
def test_a_huge_delta_wipes_the_state(dtype: torch.dtype, size: float) -> None:
    case = make_case(1, 20, 66, 3, starts=0.0, skip=("z", "D", "initial_state"), dtype=dtype)
    case["A"] = -1 - case["A"].abs()
    case["delta"][:, 10] = size
    case["u"][:, 10] = 0.5 / size
    case = leaves(case, dtype)
    y, state = fused(**case)
    only = (case["B"][:, 10] * case["C"][:, 10]).sum(-1, keepdim=True) * 0.5
    torch.testing.assert_close(y[:, 10], only.expand(1, 66), rtol=1e-4, atol=1e-5)
    (y[:, 10:].sum() + state.sum()).backward()
    for name in ("u", "delta", "B"):
        assert torch.all(case[name].grad[:, :10] == 0), name
    assert all(torch.isfinite(case[n].grad).all() for n in TENSORS if case[n] is not None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("channels", [3, 67])
@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", BY_TIME)
def test_nan_stays_in_its_trajectory(
    name: str, poison: float, channels: int, dtype: torch.dtype
) -> None:
    """Whatever one trajectory holds, the others keep every bit of outputs and gradients."""
    starts = [0, 40, 80]  # more than one chunk of every kernel each
    case = make_case(2, 120, channels, 3, starts=0.0, skip=("initial_state",), dtype=dtype)
    case["is_first"][:, starts] = True
    clean = results(fused, leaves(case, dtype))
    for begin, end in ((0, 40), (40, 80), (80, 120)):
        bad = {n: None if v is None else v.clone() for n, v in case.items()}
        bad[name][1, end - 1] = poison  # the whole vector at the trajectory's last step
        bad[name][1, begin + 7, -1] = poison
        found = results(fused, leaves(bad, dtype))
        if poison != poison:
            assert torch.isnan(found["y"][1, end - 1]).all()
        others = torch.ones(2, 120, dtype=torch.bool)
        others[1, begin:end] = False
        for key in ("y", *BY_TIME):
            assert torch.equal(found[key][others], clean[key][others]), (key, begin)


def test_nan_reaches_the_rest_of_its_own_trajectory() -> None:
    case = make_case(1, 30, 5, 3, starts=0.0, dtype=torch.float32)
    case["is_first"][0, 24] = True
    case["u"][0, 3, 2] = float("nan")
    y, _ = fused(**case)
    wrong = torch.isnan(y[0])
    assert wrong[3:24, 2].all()
    assert wrong.sum() == 21


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_two_threads_agree_with_one_and_with_themselves(
    dtype: torch.dtype, two_threads: None
) -> None:
    case = make_case(1, 150, 200, 8, starts=0.05, dtype=dtype)
    once = results(fused, leaves(case, dtype))
    for _ in range(4):
        again = results(fused, leaves(case, dtype))
        assert all(torch.equal(again[name], once[name]) for name in once)
    assert_same(once, results(scan_loop, leaves(case, torch.float64)), dtype)
    torch.set_num_threads(1)
    assert_same(
        results(fused, leaves(case, dtype)), {n: v.double() for n, v in once.items()}, dtype
    )


def test_repeated_runs_are_equal_to_the_bit() -> None:
    case = make_case(2, 70, 100, 5, dtype=torch.float32)
    once = results(fused, leaves(case, torch.float32))
    for _ in range(3):
        again = results(fused, leaves(case, torch.float32))
        assert all(torch.equal(again[name], once[name]) for name in once)


def test_inputs_are_not_written_to() -> None:
    case = make_case(2, 33, 65, 3, dtype=torch.float32)
    before = {name: value.clone() for name, value in case.items()}
    results(fused, {n: v.requires_grad_() if n != "is_first" else v for n, v in case.items()})
    assert all(torch.equal(case[name].detach(), before[name]) for name in case)


def test_a_very_long_tape() -> None:
    """Closed form again: a constant decay w and input b give b (1 - w^k) / (1 - w)."""
    length, every = 100_000, 30_000
    decay = torch.tensor([0.5, 0.999, 1.0 - 1e-7], dtype=torch.float64)
    ones = torch.ones(1, length, 1, dtype=torch.float64)
    u = torch.ones(1, length, 3, dtype=torch.float64, requires_grad=True)
    is_first = torch.zeros(1, length, dtype=torch.bool)
    is_first[:, ::every] = True
    y = selective_scan(u, torch.ones_like(u), decay.log()[:, None], ones, ones, is_first=is_first)
    assert isinstance(y, Tensor)
    steps = torch.arange(length) % every + 1
    torch.testing.assert_close(y[0], (1 - decay ** steps[:, None]) / (1 - decay))
    (grad,) = torch.autograd.grad(y.sum(), u)
    left = torch.minimum(every - steps + 1, length - torch.arange(length))
    torch.testing.assert_close(grad[0], (1 - decay ** left[:, None]) / (1 - decay))


def test_no_steps_hand_the_state_on() -> None:
    case = leaves(make_case(2, 0, 5, 3), torch.float64)
    found = results(fused, case)
    assert found["y"].shape == (2, 0, 5)
    assert torch.equal(found["state"], case["initial_state"])
    assert all(not found[name].any() for name in ("A", "D"))
