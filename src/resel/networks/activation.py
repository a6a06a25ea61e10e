"""Bias and ELU in one pass over memory.

torch's `elu` takes two to four times as long as `relu` on a CPU, and the bias costs another pass;
with eight critic heads both show.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from resel.networks import _threads


def dense_elu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """elu(x W^T + b) for x (..., inputs), weight (outputs, inputs) and bias (outputs,)."""
    # A few rows while acting: torch's own layer has less to set up.
    if x.device.type == "cpu" and (torch.is_grad_enabled() or x.dim() > 2):
        y = _DenseELU.apply(x.flatten(0, -2), weight, bias)  # type: ignore[no-untyped-call]
        return y.view(*x.shape[:-1], -1)  # type: ignore[no-any-return]
    return F.elu(F.linear(x, weight, bias))


def bias_elu_(x: Tensor, bias: Tensor) -> None:
    """x (groups, places, width), contiguous on a CPU, becomes elu(x + bias (groups, width))."""
    from resel.networks import _kernels

    arrays = (x.detach().numpy(), bias.detach().numpy())
    groups = _threads.group_count(x.numel(), x.shape[1])
    _threads.run_groups(lambda group, of: _kernels.bias_elu(*arrays, group, of), groups)


def elu_backward_(grad: Tensor, y: Tensor, *, sums: bool = True) -> Tensor:
    """grad of y = elu(x + bias), both (groups, places, width), becomes that of x.

    The result is the gradient of the bias (groups, width), or empty if not wanted.
    """
    from resel.networks import _kernels

    threads = _threads.group_count(y.numel(), y.shape[1])
    total = y.new_zeros(threads, y.shape[0], y.shape[2] if sums else 0)
    arrays = [t.detach().numpy() for t in (y, grad, total)]
    _threads.run_groups(lambda group, of: _kernels.elu_backward(*arrays, group, of), threads)
    return total[0] if threads == 1 else total.sum(0)


class _DenseELU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        y = x @ weight.t()
        bias_elu_(y[None], bias[None])
        ctx.save_for_backward(x, weight, y)
        return y

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, y = ctx.saved_tensors
        grad = grad_y.clone(memory_format=torch.contiguous_format)
        grad_bias = elu_backward_(grad[None], y[None])[0]
        grad_x = grad @ weight if ctx.needs_input_grad[0] else None
        grad_weight = grad.t() @ x if ctx.needs_input_grad[1] else None
        return grad_x, grad_weight, grad_bias
