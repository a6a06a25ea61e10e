"""A Mamba block in one piece is the block of single operations, forward and backward."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from resel.networks import kernel_cases
from resel.networks.ops.mamba_block import BlockWeights, mamba_block

EPS = 1e-5


def drawn(dtype: torch.dtype) -> list[Tensor]:
    rng = torch.Generator().manual_seed(3)
    inputs = kernel_cases._block_inputs(
        lambda *size: torch.randn(*size, generator=rng, dtype=torch.float64)
    )
    return [tensor.to(dtype).requires_grad_() for tensor in inputs]


def gradients(function: object, inputs: list[Tensor]) -> list[Tensor]:
    y = function(*inputs)  # type: ignore[operator]
    weights = torch.cos(torch.arange(y.numel(), dtype=y.dtype)).view_as(y)
    return [y, *torch.autograd.grad((weights * y).sum(), inputs)]


@pytest.mark.parametrize(
    ("dtype", "rtol"), [(torch.float64, 1e-9), (torch.float32, 2e-3)], ids=["double", "single"]
)
def test_it_is_the_composed_block(dtype: torch.dtype, rtol: float) -> None:
    inputs = drawn(dtype)
    found = gradients(kernel_cases._block, inputs)
    expected = gradients(kernel_cases._plain_block, inputs)
    for ours, plain in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, plain, rtol=rtol, atol=rtol)


def test_gradcheck() -> None:
    x, *weights = drawn(torch.float64)
    x = x.detach()[:, :6].contiguous().requires_grad_()
    is_first = torch.tensor([[True, False, False, True, False, False]] * 2)

    def block(*given: Tensor) -> Tensor:
        return mamba_block(given[0], is_first, EPS, BlockWeights(*given[1:]))

    assert torch.autograd.gradcheck(block, (x, *weights), fast_mode=True)


def test_without_a_gradient_it_is_the_same_to_the_bit() -> None:
    inputs = drawn(torch.float32)
    with torch.no_grad():
        alone = kernel_cases._block(*inputs)
    assert torch.equal(alone, kernel_cases._block(*inputs))


def test_two_threads_agree_with_one() -> None:
    inputs = drawn(torch.float32)
    inputs[0] = torch.randn(2, 600, inputs[0].shape[2], requires_grad=True)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = gradients(kernel_cases._block, inputs)
        torch.set_num_threads(2)
        two = [gradients(kernel_cases._block, inputs) for _ in range(2)]
    finally:
        torch.set_num_threads(before)
    for alone, first, second in zip(one, *two, strict=True):
        torch.testing.assert_close(first, alone, rtol=1e-3, atol=1e-2)
        assert torch.equal(first, second)


def test_a_second_derivative_is_refused() -> None:
    inputs = drawn(torch.float64)
    y = kernel_cases._block(*inputs)
    (grad,) = torch.autograd.grad(y.square().sum(), inputs[0], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()
