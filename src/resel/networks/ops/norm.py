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
    return norm_forward(x.contiguous(), weight.contiguous(), eps)[0]


def norm_forward(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The norm of what is dense on a CPU, and what each step was multiplied with."""
    from resel.networks.ops.cpu import row_kernels
    from resel.networks.ops.cpu.places import like

    y = torch.empty_like(x)
    scale = torch.empty(x.shape[:-1], dtype=x.dtype)
    steps = scale.numel()
    given = (x.data_ptr(), weight.data_ptr(), eps, y.data_ptr(), scale.data_ptr())
    arguments = (*given, steps, x.shape[-1], like(x))
    groups = thread_count(x.numel(), steps)
    run_threads(lambda thread, of: row_kernels.rms_norm(*arguments, thread, of), groups)
    return y, scale


def norm_backward(
    grad_y: Tensor, x: Tensor, weight: Tensor, scale: Tensor, *, sums: bool = True
) -> tuple[Tensor, Tensor | None]:
    """Gradients of x and, if wanted, of the weight; all dense on a CPU."""
    from resel.networks.ops.cpu import row_kernels
    from resel.networks.ops.cpu.places import like

    steps, width = scale.numel(), x.shape[-1]
    groups = thread_count(x.numel(), steps)
    grad_x = torch.empty_like(x)
    shares = torch.zeros(groups, width, dtype=x.dtype) if sums else None
    addresses = [tensor.data_ptr() for tensor in (x, weight, scale, grad_y, grad_x)]
    arguments = (*addresses, 0 if shares is None else shares.data_ptr(), steps, width, like(x))
    run_threads(lambda thread, of: row_kernels.rms_norm_backward(*arguments, thread, of), groups)
    if shares is None:
        return grad_x, None
    return grad_x, shares[0] if groups == 1 else shares.sum(0)


class _FusedNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        x, weight = x.contiguous(), weight.contiguous()
        y, scale = norm_forward(x, weight, eps)
        ctx.save_for_backward(x, weight, scale)
        return y

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, scale = ctx.saved_tensors
        sums = ctx.needs_input_grad[1]
        return *norm_backward(grad_y.contiguous(), x, weight, scale, sums=sums), None
