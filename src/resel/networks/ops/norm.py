"""The RMS norm in one pass forward and one backward; torch composes it of many operations."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from resel.networks.ops.cpu.threads import run_threads, thread_count


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension of x (..., width)."""
    if x.device.type != "cpu" or torch.compiler.is_compiling():  # where a graph would break here
        return F.rms_norm(x, weight.shape, weight, eps)
    if torch.is_grad_enabled():
        return _FusedNorm.apply(x, weight, eps)  # type: ignore[no-any-return, no-untyped-call]
    return _forward(x.contiguous(), weight.detach().contiguous(), eps)[0]


def _forward(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The norm, and what each step was multiplied with."""
    from resel.networks.ops.cpu import row_kernels

    y = torch.empty_like(x)
    scale = x.new_empty(x.shape[:-1])
    flat, to, factors = (t.view(-1).numpy() for t in (x, y, scale))
    arrays = (flat, weight.numpy(), eps, to, factors)
    groups = thread_count(x.numel(), scale.numel())
    run_threads(lambda thread, of: row_kernels.rms_norm(*arrays, thread, of), groups)
    return y, scale


class _FusedNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        x, weight = x.detach().contiguous(), weight.detach().contiguous()
        y, scale = _forward(x, weight, eps)
        ctx.save_for_backward(x, weight, scale)
        return y

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
        from resel.networks.ops.cpu import row_kernels

        x, weight, scale = ctx.saved_tensors
        groups = thread_count(x.numel(), scale.numel())
        grad_x = torch.empty_like(x)
        sums = x.new_zeros(groups, len(weight) if ctx.needs_input_grad[1] else 0)
        tensors = (x, weight, scale, grad_y.contiguous(), grad_x, sums)
        arrays = [t.detach().view(-1).numpy() for t in tensors]
        run_threads(lambda thread, of: row_kernels.rms_norm_backward(*arrays, thread, of), groups)
        return grad_x, sums.sum(0) if ctx.needs_input_grad[1] else None, None
