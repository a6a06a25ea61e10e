"""Linear layers with their activation in one pass against torch's own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from resel.networks.ops.activation import dense_elu, dense_softplus

Layer = Callable[[Tensor, Tensor, Tensor], Tensor]
LAYERS: dict[str, tuple[Layer, Layer]] = {
    "elu": (dense_elu, lambda x, w, b: F.elu(F.linear(x, w, b))),
    "softplus": (dense_softplus, lambda x, w, b: F.softplus(F.linear(x, w, b), threshold=40)),
}


def both(
    x: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype, kind: str
) -> tuple[list[Tensor], list[Tensor]]:
    """Output and gradients of ours in `dtype` and of torch's in float64."""
    found = []
    for function, precision in zip(LAYERS[kind], (dtype, torch.float64), strict=True):
        leaves = [t.to(precision).detach().requires_grad_() for t in (x, weight, bias)]
        y = function(*leaves)
        rng = torch.Generator().manual_seed(1)
        weighting = torch.randn(y.shape, generator=rng, dtype=torch.float64).to(precision)
        grads = torch.autograd.grad((y * weighting).sum(), leaves)
        found.append([t.detach() for t in (y, *grads)])
    return found[0], found[1]


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(1, 4),
    steps=st.integers(1, 30),
    inputs=st.integers(1, 5),
    width=st.integers(1, 40),
    swapped=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    kind=st.sampled_from(sorted(LAYERS)),
    seed=st.integers(0, 10**6),
)
def test_equals_torch(
    rows: int,
    steps: int,
    inputs: int,
    width: int,
    swapped: bool,
    dtype: torch.dtype,
    kind: str,
    seed: int,
) -> None:
    rng = torch.Generator().manual_seed(seed)
    x = 2 * torch.randn(rows, steps, inputs, generator=rng, dtype=torch.float64)
    if swapped:
        x = x.transpose(0, 1).contiguous().transpose(0, 1)
    weight = torch.randn(width, inputs, generator=rng, dtype=torch.float64)
    bias = torch.randn(width, generator=rng, dtype=torch.float64)
    close = 1e-12 if dtype == torch.float64 else 5e-5
    for ours, theirs in zip(*both(x, weight, bias, dtype, kind), strict=True):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours.double(), theirs, rtol=close, atol=close)


@pytest.mark.parametrize("kind", LAYERS)
def test_the_input_is_left_as_it_was(kind: str) -> None:
    x = torch.randn(2, 5, 3)
    before = x.clone()
    LAYERS[kind][0](x, torch.randn(4, 3), torch.randn(4))
    assert torch.equal(x, before)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_values(dtype: torch.dtype, kind: str) -> None:
    values = [-1e30, -100.0, -0.0, 0.0, 1e30, float("inf"), -float("inf"), float("nan")]
    x = torch.tensor(values).to(dtype)[:, None]  # one step each
    one, nought = torch.ones(1, 1), torch.zeros(1)
    (ours, grad_x, *_), (theirs, expected, *_) = both(x, one, nought, dtype, kind)
    torch.testing.assert_close(ours.double(), theirs, equal_nan=True)
    torch.testing.assert_close(grad_x.double()[:5], expected[:5], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", LAYERS)
def test_two_threads_agree_with_one(kind: str) -> None:
    x, weight, bias = torch.randn(4, 500, 20), torch.randn(200, 20), torch.randn(200)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one, _ = both(x, weight, bias, torch.float32, kind)
        torch.set_num_threads(2)
        two, _ = both(x, weight, bias, torch.float32, kind)
        again, _ = both(x, weight, bias, torch.float32, kind)
    finally:
        torch.set_num_threads(before)
    for a, b in zip(one, two, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)
    assert all(torch.equal(a, b) for a, b in zip(two, again, strict=True))


@pytest.mark.parametrize("kind", LAYERS)
def test_gradcheck(kind: str) -> None:
    shapes = [(2, 3, 4), (17, 4), (17,)]
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    assert torch.autograd.gradcheck(LAYERS[kind][0], inputs)


@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 5e-7), (torch.float64, 1e-15)])
def test_softplus_and_its_slope_keep_their_digits(dtype: torch.dtype, close: float) -> None:
    """Step sizes are small, and 1 - e^-y would lose the digits of their slope."""
    a = torch.linspace(-80, 30, 20_001, dtype=torch.float64).to(dtype)[:, None].requires_grad_()
    y = dense_softplus(a, torch.ones(1, 1, dtype=dtype), torch.zeros(1, dtype=dtype))
    (slope,) = torch.autograd.grad(y.sum(), a)
    exact = a.detach().numpy().astype(np.longdouble)
    for found, wanted in ((y, np.log1p(np.exp(exact))), (slope, 1 / (1 + np.exp(-exact)))):
        error = np.abs(found.detach().numpy() / wanted - 1)
        assert error.max() < close


def test_only_gradients_that_are_wanted() -> None:
    x = torch.randn(1, 5, 3, requires_grad=True)
    for layer, _ in LAYERS.values():
        y = layer(x, torch.randn(4, 3), torch.randn(4))
        (grad,) = torch.autograd.grad(y.sum(), x)
        assert grad.shape == x.shape
