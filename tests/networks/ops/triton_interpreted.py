"""The Triton kernels against those for CPUs; `test_scan_gpu.py` runs this with the interpreter."""

from __future__ import annotations

import pytest
import torch
from scan_cases import (
    ON_EVERY_MACHINE,
    TENSORS,
    assert_same,
    fused,
    leaves,
    make_case,
    results,
    using,
)

from resel.networks.ops import _scan_operator as scan_operator
from resel.networks.ops._scan_inputs import ScanInputs
from resel.networks.ops.checking import trusted
from resel.networks.ops.reference import scan as reference_scan
from resel.networks.ops.triton import scan as triton_scan

OPTIONAL = ("D", "z", "is_first", "initial_state")
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # NumPy's


@pytest.mark.parametrize(
    ("shape", "skip", "starts", "dtype"),
    [
        ((2, 33, 9, 3), (), 0.1, torch.float32),  # a chunk and a step
        ((1, 33, 2, 5), OPTIONAL, 0.0, torch.float64),
        ((2, 4, 65, 17), ("z",), 0.5, torch.float64),  # a block of channels and one, or two
        ((1, 3, 2, 1025), ("D", "initial_state"), 1.0, torch.float64),  # a channel a program
        ((3, 1, 1, 1), ("is_first",), 0.0, torch.float32),
        ((2, 0, 3, 2), (), 0.0, torch.float64),
        ((0, 3, 2, 2), (), 0.0, torch.float64),
        ((2, 3, 0, 2), (), 0.0, torch.float64),
        ((2, 3, 4, 0), (), 0.0, torch.float64),
    ],
)
def test_equals_the_cpu(
    shape: tuple[int, int, int, int], skip: tuple[str, ...], starts: float, dtype: torch.dtype
) -> None:
    case = make_case(*shape, skip=skip, starts=starts, dtype=dtype)
    expected = results(fused, leaves(case, torch.float64))
    with using(triton_scan):
        found = results(fused, leaves(case, dtype))
    assert all(value.dtype == dtype for value in found.values())
    assert_same(found, expected, dtype)


def test_the_same_bits_again() -> None:
    case = make_case(2, 5, 70, 3, dtype=torch.float32)
    with using(triton_scan):
        once, again = (results(fused, leaves(case, torch.float32)) for _ in range(2))
    assert all(torch.equal(once[name], again[name]) for name in once)


@pytest.mark.parametrize(
    ("name", "poison"), [("u", float("inf")), ("delta", float("nan")), ("C", float("nan"))]
)
def test_nan_stays_in_its_trajectory(name: str, poison: float) -> None:
    case = make_case(1, 40, 3, 3, starts=0.0, skip=("initial_state",), dtype=torch.float32)
    case["is_first"][0, [4, 36]] = True  # the middle one crosses a chunk
    others = torch.ones(40, dtype=torch.bool)
    others[4:36] = False
    with using(triton_scan):
        clean = results(fused, leaves(case, torch.float32))
        case[name][0, 27] = poison
        found = results(fused, leaves(case, torch.float32))
    assert not torch.isfinite(found["y"][0, 27]).any()
    for key in ("y", "u", "delta", "B", "C", "z"):
        assert torch.equal(found[key][0, others], clean[key][0, others]), key


def test_a_huge_delta_wipes_the_state() -> None:
    case = make_case(1, 6, 3, 3, starts=0.0, skip=("D",), dtype=torch.float32)
    case["delta"][:, 3] = 1e30
    case["u"][:, 3] = 0.0
    with using(triton_scan):
        found = leaves(case, torch.float32)
        y, state = fused(**found)
        (y[:, 3:].sum() + state.sum()).backward()
    assert (y[:, 3] == 0).all()
    assert all(not found[name].grad[:, :3].any() for name in ("u", "delta", "B"))
    assert all(torch.isfinite(found[name].grad).all() for name in ("u", "A", "B", "C", "z"))


def test_gradcheck() -> None:
    case = leaves(make_case(1, 3, 2, 2, starts=0.3), torch.float64)

    def function(*values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return fused(**{**case, **dict(zip(TENSORS, values, strict=True))})

    with using(triton_scan):
        assert torch.autograd.gradcheck(function, [case[n] for n in TENSORS], fast_mode=True)


def test_it_is_trusted() -> None:
    assert trusted(triton_scan, torch.device("cpu")) is triton_scan


def test_cuda_tensors_are_given_to_it() -> None:
    assert scan_operator._kernels("cuda") is triton_scan
    assert scan_operator._kernels("cpu") is ON_EVERY_MACHINE["cpu"]
    assert scan_operator._kernels("xpu") is reference_scan
    inputs = (*make_case(1, 3, 2, 2).values(), True)
    key = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
    found = torch.ops.resel.selective_scan.default.redispatch(key, *inputs)
    assert all(map(torch.equal, found, triton_scan.forward(ScanInputs(*inputs[:8]), *inputs[8:])))
