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
from resel.networks.ops.products import input_gradient, weight_gradient


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
    layer = _Dense.apply if torch.is_grad_enabled() else _dense_forward
    y: Tensor = layer(x.flatten(0, -2), weight, bias, kind)
    return y.view(*x.shape[:-1], -1)


def bias_elu_(x: Tensor, bias: Tensor) -> None:
    """x (groups, steps, width) becomes elu(x + bias (groups, width)); x dense, on a CPU."""
    from resel.networks.ops.cpu import kernels
    from resel.networks.ops.cpu.places import like

    bias = bias.contiguous()
    arguments = (x.data_ptr(), bias.data_ptr(), *x.shape, like(x))
    groups = thread_count(x.numel(), x.shape[1])
    run_threads(lambda thread, of: kernels.bias_elu(*arguments, thread, of), groups)


def elu_backward_(grad: Tensor, y: Tensor, *, sums: bool = True) -> Tensor | None:
    """grad of y = elu(x + bias), both (groups, steps, width), becomes that of x.

    The result is the gradient of the bias (groups, width), if it is wanted.
    """
    from resel.networks.ops.cpu import kernels
    from resel.networks.ops.cpu.places import like

    threads = thread_count(y.numel(), y.shape[1])
    parts, _, width = y.shape
    total = torch.zeros(threads, parts, width, dtype=y.dtype) if sums else None
    to = 0 if total is None else total.data_ptr()
    arguments = (y.data_ptr(), grad.data_ptr(), to, *y.shape, like(y))
    run_threads(lambda thread, of: kernels.elu_backward(*arguments, thread, of), threads)
    if total is None:
        return None
    return total[0] if threads == 1 else total.sum(0)


def bias_softplus_(x: Tensor, bias: Tensor) -> None:
    """x (steps, width) becomes softplus(x + bias); x dense, on a CPU."""
    from resel.networks.ops.cpu import row_kernels
    from resel.networks.ops.cpu.places import like

    bias = bias.contiguous()
    arguments = (x.data_ptr(), bias.data_ptr(), *x.shape, like(x))
    groups = thread_count(x.numel(), x.shape[0])
    run_threads(lambda thread, of: row_kernels.bias_softplus(*arguments, thread, of), groups)


def softplus_backward_(grad: Tensor, y: Tensor, *, sums: bool = True) -> Tensor | None:
    """As `elu_backward_`, of y = softplus(x + bias) and for (steps, width)."""
    from resel.networks.ops.cpu import row_kernels
    from resel.networks.ops.cpu.places import like

    steps, width = y.shape
    groups = thread_count(y.numel(), steps)
    total = torch.zeros(groups, width, dtype=y.dtype) if sums else None
    to = 0 if total is None else total.data_ptr()
    arguments = (y.data_ptr(), grad.data_ptr(), to, steps, width, like(y))
    run_threads(lambda thread, of: row_kernels.softplus_backward(*arguments, thread, of), groups)
    if total is None:
        return None
    return total[0] if groups == 1 else total.sum(0)


class _Activation(NamedTuple):
    """An activation whose slope can be had from its result; tensors are (steps, width)."""

    add_bias_: Callable[[Tensor, Tensor], None]
    """x becomes the activation of x + bias."""
    backward_: Callable[[Tensor, Tensor, bool], Tensor | None]
    """The gradient, with the result, becomes that of x; and, if wanted, that of the bias."""


def _elu_backward_(grad: Tensor, y: Tensor, sums: bool) -> Tensor | None:
    of_bias = elu_backward_(grad[None], y[None], sums=sums)
    return of_bias if of_bias is None else of_bias[0]


_ELU = _Activation(lambda x, bias: bias_elu_(x[None], bias), _elu_backward_)
_SOFTPLUS = _Activation(
    bias_softplus_, lambda grad, y, sums: softplus_backward_(grad, y, sums=sums)
)


def _dense_forward(x: Tensor, weight: Tensor, bias: Tensor, kind: _Activation) -> Tensor:
    y = x @ weight.t()
    kind.add_bias_(y, bias)
    return y


class _Dense(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, kind: _Activation) -> Tensor:
        y = _dense_forward(x, weight, bias, kind)
        ctx.save_for_backward(x, weight, y)
        ctx.kind = kind
        return y

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, y = ctx.saved_tensors
        of_x, of_weight, of_bias, _ = ctx.needs_input_grad
        grad = grad_y.clone(memory_format=torch.contiguous_format)
        grad_bias = ctx.kind.backward_(grad, y, of_bias)
        grad_x = input_gradient(grad, weight) if of_x else None
        grad_weight = weight_gradient(grad, x) if of_weight else None
        return grad_x, grad_weight, grad_bias, None
