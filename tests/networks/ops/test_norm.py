"""The fused RMS norm against torch's."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from resel.networks.ops.norm import rms_norm

EPS = 1e-8


def torchs(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return F.rms_norm(x, weight.shape, weight, eps)


def results(function: object, x: Tensor, weight: Tensor, dtype: torch.dtype) -> list[Tensor]:
    """The norm and its gradients."""
    assert callable(function)
    leaves = [t.detach().to(dtype).requires_grad_() for t in (x, weight)]
    y = function(*leaves, EPS)
    rng = torch.Generator().manual_seed(1)
    weighting = torch.randn(y.shape, generator=rng, dtype=torch.float64).to(dtype)
    return [y.detach(), *torch.autograd.grad((y * weighting).sum(), leaves)]


@settings(max_examples=30, deadline=None)
@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=2),
    width=st.integers(1, 50),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
    turned=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 10**6),
)
def test_equals_torch(
    shape: list[int], width: int, scale: float, turned: bool, dtype: torch.dtype, seed: int
) -> None:
    rng = torch.Generator().manual_seed(seed)
    x = scale * torch.randn(*shape, width, generator=rng, dtype=torch.float64)
    if turned:
        x = x.transpose(0, -1).contiguous().transpose(0, -1)
    weight = torch.randn(width, generator=rng, dtype=torch.float64)
    found = results(rms_norm, x, weight, dtype)
    expected = results(torchs, x.to(dtype), weight.to(dtype), torch.float64)
    close = 1e-11 if dtype == torch.float64 else 1e-4
    # What cancels in the gradient of x is as large as the weight over the root mean square.
    least = float((x.square().mean(-1) + EPS).sqrt().min())
    sizes = (1.0, 10 * float(weight.abs().max()) / least, 1.0)
    for ours, theirs, size in zip(found, expected, sizes, strict=True):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours.double(), theirs, rtol=close, atol=close * size)
    with torch.no_grad():
        assert torch.equal(rms_norm(x.to(dtype), weight.to(dtype), EPS), found[0])


def test_gradcheck() -> None:
    x = torch.randn(2, 3, 19, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(19, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *t: rms_norm(*t, EPS), (x, weight))


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_nan_stays_at_its_place(poison: float) -> None:
    x, weight = torch.randn(1, 4, 20), torch.randn(20)
    clean = rms_norm(x, weight, EPS)
    x[0, 2, 17] = poison
    dirty = rms_norm(x, weight, EPS)
    assert torch.equal(clean[0, [0, 1, 3]], dirty[0, [0, 1, 3]])
    torch.testing.assert_close(dirty[0, 2], torchs(x, weight, EPS)[0, 2], equal_nan=True)
    assert dirty[0, 2].isnan().any()


def test_nought_and_an_empty_tape() -> None:
    assert torch.equal(rms_norm(torch.zeros(1, 2, 5), torch.ones(5), EPS), torch.zeros(1, 2, 5))
    assert rms_norm(torch.zeros(1, 0, 5), torch.ones(5), EPS).shape == (1, 0, 5)


def test_the_weight_may_be_frozen() -> None:
    x = torch.randn(1, 4, 20, requires_grad=True)
    y = rms_norm(x, torch.ones(20), EPS)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert grad.shape == x.shape


def test_two_threads_agree_with_one() -> None:
    x, weight = torch.randn(2, 500, 300), torch.randn(300)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = results(rms_norm, x, weight, torch.float32)
        torch.set_num_threads(2)
        two = [results(rms_norm, x, weight, torch.float32) for _ in range(2)]
    finally:
        torch.set_num_threads(before)
    for alone, first, second in zip(one, *two, strict=True):
        torch.testing.assert_close(first, alone, rtol=1e-4, atol=1e-3)
        assert torch.equal(first, second)


def test_a_compiled_norm_is_one_graph() -> None:
    x, weight = torch.randn(1, 4, 20, requires_grad=True), torch.randn(20, requires_grad=True)
    compiled = torch.compile(rms_norm, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, weight, EPS), rms_norm(x, weight, EPS))
