"""A kernel that is wrong on a device is not used there."""

from __future__ import annotations

import sys
import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from scan_cases import make_case, using

from resel.networks.ops import _scan_operator as scan_operator
from resel.networks.ops.checking import ALLOWED, deviation, scan_deviation, trusted
from resel.networks.ops.cpu import scan_call
from resel.networks.ops.reference import scan as reference_scan

CPU = torch.device("cpu")


def wrong_forward(*given: Any) -> Any:
    y, *rest = reference_scan.forward(*given)
    return y * 1.02, *rest


def wrong_gradient(*given: Any) -> Any:
    *grads, last = reference_scan.backward(*given)
    return *grads, last + 0.1


def not_finite(*given: Any) -> Any:
    y, *rest = reference_scan.forward(*given)
    return torch.full_like(y, torch.nan), *rest


def fails(*given: Any) -> Any:
    raise RuntimeError("device kernel image is invalid\nand more")


def kernels(**replaced: Any) -> Any:
    own = {"forward": reference_scan.forward, "backward": reference_scan.backward}
    return SimpleNamespace(**{**own, **replaced})


class Named(SimpleNamespace):
    """Can be a key, as modules are."""

    __hash__ = object.__hash__


def test_deviation_is_relative_to_large_numbers_only() -> None:
    small, large = torch.tensor([0.0, 1.0]), torch.tensor([0.0, 100.0])
    assert deviation([small + 0.1], [small]) == pytest.approx(0.1)
    assert deviation([large + 1], [large]) == pytest.approx(0.01)
    assert deviation([small, small * torch.nan], [small, small]) == torch.inf


def test_right_kernels_are_within_rounding() -> None:
    for implementation in (scan_call, reference_scan):
        assert scan_deviation(implementation, CPU) < 1e-5 < ALLOWED


@pytest.mark.parametrize(
    ("replaced", "why"),
    [
        ({"forward": wrong_forward}, "its results differ from the reference by 0.0"),
        ({"forward": not_finite}, "its results differ from the reference by inf"),
        ({"backward": wrong_gradient}, "its results differ from the reference by 0."),
        ({"forward": fails}, r"it failed \(RuntimeError: device kernel image is invalid\)"),
    ],
)
def test_the_reference_takes_the_place_of_wrong_ones(replaced: Any, why: str) -> None:
    wrong = Named(**vars(kernels(**replaced)))
    with pytest.warns(UserWarning, match=f"not used on cpu: {why}.*resel doctor"):
        assert trusted(wrong, CPU) is reference_scan
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # told once
        assert trusted(wrong, CPU) is reference_scan


def test_right_ones_are_looked_at_once() -> None:
    calls = []

    def counted(*given: Any) -> Any:
        calls.append(1)
        return reference_scan.forward(*given)

    right = Named(**vars(kernels(forward=counted)))
    assert trusted(right, CPU) is trusted(right, CPU) is right and len(calls) == 1
    assert trusted(reference_scan, CPU) is reference_scan


def test_what_is_given_to_a_gpu_is_looked_at() -> None:
    case = make_case(1, 5, 3, 2)
    wrong = Named(**vars(kernels(forward=wrong_forward)))
    with using(wrong):
        y = scan_operator._forward("cpu", *case.values(), False)[0]
        with pytest.warns(UserWarning, match="not used on cpu"):
            checked = scan_operator._forward("cuda", *case.values(), False)[0]
    torch.testing.assert_close(y, checked * 1.02)


def test_a_triton_that_cannot_be_imported_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_operator, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "resel.networks.ops.triton.scan", None)
    with pytest.warns(UserWarning, match=r"Triton cannot be used .*release that belongs to torch"):
        assert scan_operator._kernels.__wrapped__("cuda") is reference_scan
