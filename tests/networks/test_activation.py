"""Bias and ELU in one pass against torch's two."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from resel.networks.activation import bias_elu


def both(x: Tensor, bias: Tensor, dtype: torch.dtype) -> tuple[list[Tensor], list[Tensor]]:
    """Output and gradients of ours in `dtype` and of torch's in float64."""
    found = []
    for function, kind in (
        (bias_elu, dtype),
        (lambda x, b: F.elu(x + b[:, None]), torch.float64),
    ):
        # A leaf with the strides of x: the fused pass reads more than one layout.
        leaves = [x.to(kind).detach().requires_grad_(), bias.to(kind).detach().requires_grad_()]
        y = function(*leaves)
        rng = torch.Generator().manual_seed(1)
        weighting = torch.randn(y.shape, generator=rng, dtype=torch.float64).to(kind)
        grads = torch.autograd.grad((y * weighting).sum(), leaves)
        found.append([t.detach() for t in (y, *grads)])
    return found[0], found[1]


@settings(max_examples=30, deadline=None)
@given(
    groups=st.integers(1, 4),
    places=st.integers(1, 30),
    width=st.integers(1, 20),
    swapped=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 10**6),
)
def test_equals_torch(
    groups: int, places: int, width: int, swapped: bool, dtype: torch.dtype, seed: int
) -> None:
    rng = torch.Generator().manual_seed(seed)
    x = 2 * torch.randn(groups, places, width, generator=rng, dtype=torch.float64)
    if swapped:
        x = x.transpose(0, 1).contiguous().transpose(0, 1)
    bias = torch.randn(groups, width, generator=rng, dtype=torch.float64)
    close = 1e-12 if dtype == torch.float64 else 2e-5
    for ours, theirs in zip(*both(x, bias, dtype), strict=True):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours.double(), theirs, rtol=close, atol=close)


def test_the_input_is_left_as_it_was() -> None:
    x, bias = torch.randn(2, 5, 3), torch.randn(2, 3)
    before = x.clone()
    bias_elu(x, bias)
    assert torch.equal(x, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_values(dtype: torch.dtype) -> None:
    x = torch.tensor([[[-1e30, -100.0, -0.0, 0.0, 1e30, float("inf"), -float("inf")]]]).to(dtype)
    (ours, grad_x, _), (theirs, expected, _) = both(x, torch.zeros(1, 7), dtype)
    torch.testing.assert_close(ours.double(), theirs)
    torch.testing.assert_close(grad_x.double()[..., :5], expected[..., :5], rtol=1e-6, atol=1e-6)
    nan = torch.tensor([[[1.0, float("nan"), -1.0]]], dtype=dtype)
    assert torch.isnan(bias_elu(nan, torch.zeros(1, 3, dtype=dtype)))[0, 0].tolist() == [
        False,
        True,
        False,
    ]


def test_two_threads_agree_with_one() -> None:
    x, bias = torch.randn(4, 500, 64), torch.randn(4, 64)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one, _ = both(x, bias, torch.float32)
        torch.set_num_threads(2)
        two, _ = both(x, bias, torch.float32)
        again, _ = both(x, bias, torch.float32)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(one[0], two[0]) and torch.equal(one[1], two[1])
    torch.testing.assert_close(one[2], two[2], rtol=1e-4, atol=1e-4)
    assert all(torch.equal(a, b) for a, b in zip(two, again, strict=True))
