"""Gradients that are written out are those of torch's own graph."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from resel.networks.ops.feed_forward import elu_linear, feed_forward

WIDTH, EPS = 7, 1e-8


def drawn(*sizes: tuple[int, ...]) -> list[Tensor]:
    rng = torch.Generator().manual_seed(0)
    return [
        torch.randn(*size, generator=rng, dtype=torch.float64, requires_grad=True) for size in sizes
    ]


def block(x: Tensor, *layers: Tensor) -> Tensor:
    return feed_forward(x, layers[:2], layers[2:4], layers[4:], EPS)  # type: ignore[arg-type]


def plain(x: Tensor, *layers: Tensor) -> Tensor:
    inner = F.linear(F.gelu(F.linear(x, *layers[:2])), *layers[2:4])
    return F.layer_norm(x + inner, (WIDTH,), *layers[4:], EPS)


def test_the_feed_forward_part() -> None:
    square, row = (WIDTH, WIDTH), (WIDTH,)
    given = drawn((2, 3, WIDTH), square, row, square, row, row, row)
    torch.testing.assert_close(block(*given), plain(*given))
    assert torch.autograd.gradcheck(block, given)
    with torch.no_grad():
        torch.testing.assert_close(block(*given), plain(*given))


def test_a_linear_layer_on_an_elu() -> None:
    given = drawn((2, 3, WIDTH), (5, WIDTH), (5,))
    torch.testing.assert_close(elu_linear(*given), F.linear(F.elu(given[0]), *given[1:]))
    assert torch.autograd.gradcheck(elu_linear, given)


def test_a_second_derivative_is_refused() -> None:
    given = drawn((2, 3, WIDTH), (5, WIDTH), (5,))
    y = elu_linear(*given)
    (grad,) = torch.autograd.grad(y.square().sum(), given[0], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()
