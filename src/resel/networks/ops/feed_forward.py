"""The feed-forward part of a block, and what reads it, each as one node of autograd.

The operations are torch's own on every device; written out, their gradients need no graph of small
steps, which on a CPU takes a small network longer than the arithmetic.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


def feed_forward(
    x: Tensor, up: tuple[Tensor, Tensor], down: tuple[Tensor, Tensor], norm: tuple[Tensor, Tensor],
    eps: float,
) -> Tensor:  # fmt: skip
    """layer_norm(x + down(gelu(up(x)))) for x (..., width) and (weight, bias) of each layer."""
    flat = x.reshape(-1, x.shape[-1])
    layers = (*up, *down, *norm)
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        y = _FeedForward.apply(flat, eps, *layers)  # type: ignore[no-untyped-call]
    else:
        y = _forward(flat, eps, *layers)[0]
    return y.view(x.shape)  # type: ignore[no-any-return]


def elu_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """elu(x) W^T + b for x (..., inputs)."""
    flat = x.reshape(-1, x.shape[-1])
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        y = _EluLinear.apply(flat, weight, bias)  # type: ignore[no-untyped-call]
    else:
        y = torch.addmm(bias, F.elu(flat), weight.t())
    return y.view(*x.shape[:-1], -1)  # type: ignore[no-any-return]


def _forward(
    x: Tensor, eps: float, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor,
    norm: Tensor, norm_bias: Tensor,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The result, then what is before the GELU and behind it, the sum, its mean and its scale."""
    before = torch.addmm(up_bias, x, up.t())
    inner = F.gelu(before)
    sums = torch.addmm(down_bias, inner, down.t()).add_(x)
    y, mean, scale = torch.native_layer_norm(sums, norm.shape, norm, norm_bias, eps)
    return y, before, inner, sums, mean, scale


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float, *layers: Tensor) -> Tensor:
        y, *kept = _forward(x, eps, *layers)
        up, _, down, _, norm, norm_bias = layers
        ctx.save_for_backward(x, up, down, norm, norm_bias, *kept)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
        x, up, down, norm, norm_bias, before, inner, sums, mean, scale = ctx.saved_tensors
        grad, of_norm, of_norm_bias = torch.ops.aten.native_layer_norm_backward(
            grad_y, sums, norm.shape, mean, scale, norm, norm_bias, [True, True, True]
        )
        grad_before = torch.ops.aten.gelu_backward(grad @ down, before)
        return (
            torch.addmm(grad, grad_before, up),
            None,
            grad_before.t() @ x,
            grad_before.sum(0),
            grad.t() @ inner,
            grad.sum(0),
            of_norm,
            of_norm_bias,
        )


class _EluLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        inner = F.elu(x)
        ctx.save_for_backward(inner, weight)
        return torch.addmm(bias, inner, weight.t())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        inner, weight = ctx.saved_tensors
        grad_x = torch.ops.aten.elu_backward(grad @ weight, 1.0, 1.0, 1.0, True, inner)
        return grad_x, grad.t() @ inner, grad.sum(0)
