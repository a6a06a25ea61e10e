"""Bias and activation in one pass over memory.

torch's `elu` takes two to four times as long as `relu` on a CPU, its `softplus` yet longer, and the
bias costs another pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from resel.networks.ops.cpu.threads import run_threads, thread_count


def dense_elu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """elu(x W^T + b) for x (..., inputs), weight (outputs, inputs) and bias (outputs,)."""
    if _worth_a_kernel(x):
        return _dense(x, weight, bias, _ELU)
    return F.elu(F.linear(x, weight, bias))


def dense_softplus(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """softplus(x W^T + b), like `dense_elu`."""
    if _worth_a_kernel(x):
        return _dense(x, weight, bias, _SOFTPLUS)
    return F.softplus(F.linear(x, weight, bias))


def _worth_a_kernel(x: Tensor) -> bool:
    """Not a few rows while acting, for which torch's own layer has less to set up.

    Nor what torch.compile traces, whose graph would break here.
    """
    many = torch.is_grad_enabled() or x.dim() > 2
    return x.device.type == "cpu" and many and not torch.compiler.is_compiling()


def _dense(x: Tensor, weight: Tensor, bias: Tensor, kind: _Activation) -> Tensor:
    y = _Dense.apply(x.flatten(0, -2), weight, bias, kind)  # type: ignore[no-untyped-call]
    return y.view(*x.shape[:-1], -1)  # type: ignore[no-any-return]


def bias_elu_(x: Tensor, bias: Tensor) -> None:
    """x (groups, steps, width), contiguous on a CPU, becomes elu(x + bias (groups, width))."""
    from resel.networks.ops.cpu import kernels

    arrays = (x.detach().numpy(), bias.detach().numpy())
    groups = thread_count(x.numel(), x.shape[1])
    run_threads(lambda thread, of: kernels.bias_elu(*arrays, thread, of), groups)


def elu_backward_(grad: Tensor, y: Tensor, *, sums: bool = True) -> Tensor:
    """grad of y = elu(x + bias), both (groups, steps, width), becomes that of x.

    The result is the gradient of the bias (groups, width), or empty if not wanted.
    """
    from resel.networks.ops.cpu import kernels

    threads = thread_count(y.numel(), y.shape[1])
    total = y.new_zeros(threads, y.shape[0], y.shape[2] if sums else 0)
    arrays = [t.detach().numpy() for t in (y, grad, total)]
    run_threads(lambda thread, of: kernels.elu_backward(*arrays, thread, of), threads)
    return total[0] if threads == 1 else total.sum(0)


class _Activation(NamedTuple):
    """An activation whose slope can be had from its result; tensors are (steps, width)."""

    add_bias_: Callable[[Tensor, Tensor], None]
    """x becomes the activation of x + bias."""
    backward: Callable[[Tensor, Tensor, bool], tuple[Tensor, Tensor]]
    """From gradient and result: gradients of x and, if wanted, of the bias."""


def _elu_backward(grad_y: Tensor, y: Tensor, sums: bool) -> tuple[Tensor, Tensor]:
    grad = grad_y.clone(memory_format=torch.contiguous_format)
    return grad, elu_backward_(grad[None], y[None], sums=sums)[0]


def _bias_softplus_(x: Tensor, bias: Tensor) -> None:
    from resel.networks.ops.cpu import row_kernels

    arrays = (x.view(-1).numpy(), bias.detach().contiguous().numpy())
    groups = thread_count(x.numel(), len(x))
    run_threads(lambda thread, of: row_kernels.bias_softplus(*arrays, thread, of), groups)


def _softplus_backward(grad_y: Tensor, y: Tensor, sums: bool) -> tuple[Tensor, Tensor]:
    from resel.networks.ops.cpu import row_kernels

    width = y.shape[1]
    groups = thread_count(y.numel(), len(y))
    grad, shares = torch.empty_like(y), y.new_zeros(groups, width if sums else 0)
    tensors = (y, grad_y.contiguous(), grad, shares)
    arrays = [t.detach().view(-1).numpy() for t in tensors]
    run_threads(
        lambda thread, of: row_kernels.softplus_backward(*arrays, width, thread, of), groups
    )
    return grad, shares[0] if groups == 1 else shares.sum(0)


_ELU = _Activation(lambda x, bias: bias_elu_(x[None], bias[None]), _elu_backward)
_SOFTPLUS = _Activation(_bias_softplus_, _softplus_backward)


class _Dense(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, kind: _Activation) -> Tensor:
        y = x @ weight.t()
        kind.add_bias_(y, bias)
        ctx.save_for_backward(x, weight, y)
        ctx.kind = kind
        return y

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, y = ctx.saved_tensors
        of_x, of_weight, of_bias, _ = ctx.needs_input_grad
        grad, grad_bias = ctx.kind.backward(grad_y, y, of_bias)
        grad_x = grad @ weight if of_x else None
        grad_weight = grad.t() @ x if of_weight else None
        return grad_x, grad_weight, grad_bias if of_bias else None, None
