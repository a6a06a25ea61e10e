"""Bias and ELU in one pass over memory.

torch's `elu` takes two to four times as long as `relu` on a CPU, and the bias of a batched product
costs another copy; with eight critic heads both show. Forward overwrites its input.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from resel.networks import _threads


def bias_elu(x: Tensor, bias: Tensor) -> Tensor:
    """elu(x + bias) for x (groups, places, width) and bias (groups, width); x may be reused."""
    if x.device.type == "cpu":
        return _FusedBiasELU.apply(x, bias)  # type: ignore[no-any-return, no-untyped-call]
    return F.elu(x + bias[:, None])


class _FusedBiasELU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor) -> Tensor:
        from resel.networks import _kernels

        y = x.contiguous()
        values, offsets = y.detach().numpy(), bias.detach().contiguous().numpy()
        groups = _threads.group_count(4 * y.numel(), y.shape[1])
        _threads.run_groups(
            lambda group, of: _kernels.bias_elu_forward(values, offsets, group, of), groups
        )
        if y is x:
            ctx.mark_dirty(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor) -> tuple[Tensor, Tensor]:
        from resel.networks import _kernels

        (y,) = ctx.saved_tensors
        grad_y = grad_y.contiguous()
        grad_x = torch.empty_like(grad_y)
        groups = _threads.group_count(4 * y.numel(), y.shape[1])
        grad_bias = y.new_zeros(groups, y.shape[0], y.shape[2])
        arrays = [t.detach().numpy() for t in (y, grad_y, grad_x, grad_bias)]
        _threads.run_groups(
            lambda group, of: _kernels.bias_elu_backward(*arrays, group, of), groups
        )
        return grad_x, grad_bias.sum(0)
