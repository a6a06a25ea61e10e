"""The fused scan against a plain loop and against the closed form of the recurrence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from resel.errors import BadInputError
from resel.networks.scan import scan_loop, selective_scan

Case = dict[str, Any]
TENSORS = ("u", "delta", "A", "B", "C", "D", "z", "initial_state")
BY_TIME = ("u", "delta", "B", "C", "z")
TOLERANCE = {
    torch.float32: {"rtol": 2e-4, "atol": 2e-5},
    torch.float64: {"rtol": 1e-10, "atol": 1e-11},
}


def make_case(
    rows: int,
    length: int,
    channels: int,
    states: int,
    *,
    seed: int = 0,
    starts: float = 0.1,
    skip: tuple[str, ...] = (),
    dtype: torch.dtype = torch.float64,
) -> Case:
    """Random arguments of `selective_scan`; those named in `skip` are None."""
    rng = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng, dtype=torch.float64).to(dtype)

    case: Case = {
        "u": normal(rows, length, channels),
        "delta": 0.3 * normal(rows, length, channels).exp(),
        "A": -normal(channels, states).exp(),
        "B": normal(rows, length, states),
        "C": normal(rows, length, states),
        "D": normal(channels),
        "z": normal(rows, length, channels),
        "start": torch.rand(rows, length, generator=rng) < starts,
        "initial_state": normal(rows, channels, states),
    }
    return {name: None if name in skip else value for name, value in case.items()}


def closed_form(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    z: Tensor | None,
    start: Tensor | None,
    initial_state: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """No recurrence: h_t = sum over s <= t of exp(A sum of delta after s) delta_s B_s u_s."""
    rows, length, channels = u.shape
    initial = u.new_zeros(rows, channels, A.shape[1]) if initial_state is None else initial_state
    if start is None:
        start = torch.zeros(rows, length, dtype=torch.bool)
    trajectory = start.cumsum(1)  # 0 until the first start: the initial state still counts
    elapsed = delta.cumsum(1)  # (R, L, D)
    seen = (trajectory[:, :, None] == trajectory[:, None, :]).tril()[..., None]  # (R, t, s, 1)
    gap = torch.where(seen, elapsed[:, :, None] - elapsed[:, None, :], 0.0)  # (R, t, s, D)
    weight = torch.exp(gap[..., None] * A) * seen[..., None]  # (R, t, s, D, S)
    h = torch.einsum("rtsdn,rsd,rsn->rtdn", weight, delta * u, B)
    untouched = (trajectory == 0)[..., None, None]
    h = h + untouched * torch.exp(elapsed[..., None] * A) * initial[:, None]
    y = torch.einsum("rtdn,rtn->rtd", h, C)
    if D is not None:
        y = y + D * u
    if z is not None:
        y = y * z * torch.sigmoid(z)
    return y, (h[:, -1] if length else initial)


def leaves(case: Case, dtype: torch.dtype) -> Case:
    """A copy of a case whose tensors collect gradients."""
    return {
        name: None
        if value is None
        else value.clone()
        if value.dtype == torch.bool
        else value.detach().to(dtype).clone().requires_grad_()
        for name, value in case.items()
    }


def results(function: Any, case: Case, seed: int = 1) -> dict[str, Tensor]:
    """y, the last state, and the gradient of a random weighting of both for every input."""
    y, state = function(**case)
    rng = torch.Generator().manual_seed(seed)
    weights = [torch.randn(t.shape, generator=rng, dtype=torch.float64) for t in (y, state)]
    loss = sum((w.to(t.dtype) * t).sum() for w, t in zip(weights, (y, state), strict=True))
    names = [name for name in TENSORS if case[name] is not None]
    loss = loss + 0 * case["u"].sum()  # the loop over no steps has no graph at all
    grads = torch.autograd.grad(loss, [case[name] for name in names], allow_unused=True)
    found = {"y": y.detach(), "state": state.detach()}
    for name, grad in zip(names, grads, strict=True):
        found[name] = torch.zeros_like(case[name]) if grad is None else grad
    return found


def fused(**case: Any) -> tuple[Tensor, Tensor]:
    result = selective_scan(**case, return_state=True)
    assert isinstance(result, tuple)
    return result


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], dtype: torch.dtype) -> None:
    assert found.keys() == expected.keys()
    for name, value in found.items():
        wanted = expected[name]
        size = float(wanted.abs().max()) if wanted.numel() else 0.0
        tolerance = TOLERANCE[dtype]
        torch.testing.assert_close(
            value.double(),
            wanted,
            rtol=tolerance["rtol"],
            atol=tolerance["atol"] * max(1.0, size),
            msg=lambda text, name=name: f"{name}: {text}",
        )


optional = st.sets(st.sampled_from(["D", "z", "start", "initial_state"]))


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 3),
    length=st.sampled_from([0, 1, 2, 15, 16, 17, 33, 40]),
    channels=st.sampled_from([1, 3, 15, 16, 17, 64, 65, 130]),
    states=st.integers(1, 6),
    starts=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    skip=optional,
    dtype=st.sampled_from([torch.float32, torch.float64]),
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
    seed: int,
) -> None:
    case = make_case(rows, length, channels, states, seed=seed, starts=starts, skip=tuple(skip))
    case = {  # both sides start from the same numbers, those of the tested precision
        name: value.to(dtype) if value is not None and name != "start" else value
        for name, value in case.items()
    }
    found = results(fused, leaves(case, dtype))
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
@pytest.mark.parametrize("skip", [(), ("D", "z", "start", "initial_state")])
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
    first = {n: v[:, :23] if n in (*BY_TIME, "start") else v for n, v in case.items()}
    second = {n: v[:, 23:] if n in (*BY_TIME, "start") else v for n, v in case.items()}
    y_first, between = fused(**first)
    y_second, last = fused(**{**second, "initial_state": between})
    torch.testing.assert_close(torch.cat([y_first, y_second], 1), y)
    torch.testing.assert_close(last, state)


def test_every_place_a_start_leaves_no_memory() -> None:
    case = make_case(2, 20, 7, 3, starts=1.0, skip=("z",))
    y, _ = fused(**case)
    BC = (case["B"] * case["C"]).sum(-1, keepdim=True)
    torch.testing.assert_close(y, case["u"] * (case["delta"] * BC + case["D"]))


def test_layouts_that_are_not_contiguous() -> None:
    case = make_case(2, 21, 6, 3)
    expected = results(fused, leaves(case, torch.float64))
    strided = {}
    for name, value in leaves(case, torch.float64).items():
        wide = torch.stack([value.detach(), torch.full_like(value.detach(), 1)], -1)
        view = wide.transpose(0, -2).contiguous().transpose(0, -2)[..., 0]
        assert not view.is_contiguous() and torch.equal(view, value)
        strided[name] = view.requires_grad_() if name != "start" else view
    found = results(fused, strided)
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


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
@pytest.mark.parametrize("channels", [3, 64, 67])
@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", BY_TIME)
def test_nan_stays_in_its_trajectory(
    name: str, poison: float, channels: int, dtype: torch.dtype
) -> None:
    """Whatever one trajectory holds, the others keep every bit of outputs and gradients."""
    starts = [0, 20, 40]  # more than one chunk of the kernel each
    case = make_case(2, 60, channels, 3, starts=0.0, skip=("initial_state",), dtype=dtype)
    case["start"][:, starts] = True
    clean = results(fused, leaves(case, dtype))
    for begin, end in ((0, 20), (20, 40), (40, 60)):
        bad = {n: None if v is None else v.clone() for n, v in case.items()}
        bad[name][1, end - 1] = poison  # the whole vector at the trajectory's last step
        bad[name][1, begin + 7, -1] = poison
        found = results(fused, leaves(bad, dtype))
        if poison != poison:
            assert torch.isnan(found["y"][1, end - 1]).all()
        others = torch.ones(2, 60, dtype=torch.bool)
        others[1, begin:end] = False
        for key in ("y", *BY_TIME):
            assert torch.equal(found[key][others], clean[key][others]), (key, begin)


def test_nan_reaches_the_rest_of_its_own_trajectory() -> None:
    case = make_case(1, 30, 5, 3, starts=0.0, dtype=torch.float32)
    case["start"][0, 24] = True
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
    results(fused, {n: v.requires_grad_() if n != "start" else v for n, v in case.items()})
    assert all(torch.equal(case[name].detach(), before[name]) for name in case)


@pytest.mark.parametrize("name", ["delta", "A", "B", "C", "D", "z", "start", "initial_state"])
@pytest.mark.parametrize("fault", ["shape", "dtype", "device"])
def test_a_wrong_argument_is_named(name: str, fault: str) -> None:
    case = make_case(2, 5, 4, 3)
    value = case[name]
    if fault == "shape":
        index = 0 if name in ("A", "D") else 1
        case[name] = value.narrow(index, 0, value.shape[index] - 1)
    elif fault == "dtype":
        case[name] = value.to(torch.float32)
    else:
        case[name] = value.to("meta")
    with pytest.raises(BadInputError, match=rf"selective_scan: {name} is"):
        selective_scan(**case)


@pytest.mark.parametrize("name", ["u", "A"])
def test_a_missing_dimension_is_named(name: str) -> None:
    case = make_case(2, 5, 4, 3)
    case[name] = case[name][0]
    with pytest.raises(BadInputError, match=rf"{name} of shape"):
        selective_scan(**case)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64])
def test_other_precisions_are_refused(dtype: torch.dtype) -> None:
    case = make_case(2, 5, 4, 3)
    case = {n: v.to(dtype) if n != "start" else v for n, v in case.items()}
    with pytest.raises(BadInputError, match="takes float32 or float64"):
        selective_scan(**case)


def test_other_devices_run_the_loop() -> None:
    case = {name: value.to("meta") for name, value in make_case(2, 5, 4, 3).items()}
    y, state = fused(**case)
    assert (y.device.type, y.shape, state.shape) == ("meta", (2, 5, 4), (2, 4, 3))
