"""Short causal convolution, one filter per channel, that never looks across a start flag."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from resel.networks.ops.cpu.strides import flat_places
from resel.networks.ops.cpu.threads import run_threads, thread_count


def causal_conv_silu(x: Tensor, weight: Tensor, bias: Tensor, is_first: Tensor) -> Tensor:
    """y_t = silu(bias + sum_j weight[:, j] x_{t-j}), over taps j that lie in t's own trajectory.

    x is (rows, length, channels), weight (channels, taps), bias (channels,) and is_first
    (rows, length).
    """
    if x.device.type == "cpu":
        return _FusedConv.apply(x, weight, bias, is_first)  # type: ignore[no-any-return, no-untyped-call]
    return _conv_by_taps(x, weight, bias, is_first)


def steps_since_first(is_first: Tensor) -> Tensor:
    """How many steps of a row lie between each step and its trajectory's first. (rows, length)"""
    if is_first.device.type == "cpu":
        from resel.networks.ops.cpu import conv_kernels

        age = torch.empty(is_first.shape, dtype=torch.int64)
        conv_kernels.ages(is_first.contiguous().numpy(), age.numpy())
        return age
    step = torch.arange(is_first.shape[1], device=is_first.device).expand_as(is_first)
    first = torch.where(is_first, step, torch.zeros_like(step))
    return step - first.cummax(1).values if is_first.shape[1] else step


def _conv_by_taps(x: Tensor, weight: Tensor, bias: Tensor, is_first: Tensor) -> Tensor:
    """The same with torch operations, for devices without a kernel and for the tests."""
    length = x.shape[1]
    age = steps_since_first(is_first)[..., None]  # (rows, length, 1)
    y = bias + weight[:, 0] * x
    for j in range(1, min(weight.shape[1], length)):
        shifted = torch.nn.functional.pad(x[:, : length - j], (0, 0, j, 0))
        y = y + weight[:, j] * torch.where(age >= j, shifted, torch.zeros_like(shifted))
    return F.silu(y)


class _FusedConv(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, is_first: Tensor) -> Tensor:
        from resel.networks.ops.cpu import conv_kernels
        from resel.networks.ops.cpu.vectors import LANES

        flat, stride = flat_places(x)
        y = torch.empty_like(x, memory_format=torch.contiguous_format)
        age = steps_since_first(is_first)
        given = (flat, weight.contiguous().view(-1), bias.contiguous(), age.view(-1))
        arrays = [t.detach().numpy() for t in (*given, y.view(-1))]
        groups = thread_count(x.numel() * weight.shape[1], -(-len(bias) // LANES))
        run_threads(lambda thread, of: conv_kernels.forward(*arrays, stride, thread, of), groups)
        ctx.save_for_backward(*given)
        ctx.stride = stride
        return y

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
        from resel.networks.ops.cpu import conv_kernels
        from resel.networks.ops.cpu.vectors import LANES

        stride, (x, weight, bias, age) = ctx.stride, ctx.saved_tensors
        wanted = ctx.needs_input_grad[1] or ctx.needs_input_grad[2]
        grad_x = torch.empty_like(grad_y, memory_format=torch.contiguous_format)
        grad_weight, grad_bias = (t.new_empty(len(t) if wanted else 0) for t in (weight, bias))
        given = (x, weight, bias, age, grad_y.contiguous().view(-1))
        arrays = [t.detach().numpy() for t in (*given, grad_x.view(-1), grad_weight, grad_bias)]
        groups = thread_count(3 * grad_y.numel(), -(-len(bias) // LANES))
        run_threads(lambda thread, of: conv_kernels.backward(*arrays, stride, thread, of), groups)
        if not wanted:
            return grad_x, None, None, None
        return grad_x, grad_weight.view(len(bias), -1), grad_bias, None
