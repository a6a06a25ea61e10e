"""Short causal convolution, one filter per channel, that never looks across a start flag."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from resel.networks.ops.cpu.strides import spaced
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
        is_first = is_first.contiguous()
        conv_kernels.ages(is_first.data_ptr(), age.data_ptr(), *is_first.shape)
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


def conv_forward(x: Tensor, weight: Tensor, bias: Tensor, age: Tensor) -> Tensor:
    """The convolution on a CPU, with steps since the first; x evenly spaced, weights dense."""
    from resel.networks.ops.cpu import conv_kernels
    from resel.networks.ops.cpu.places import like
    from resel.networks.ops.cpu.vectors import LANES

    channels, taps = weight.shape
    y = torch.empty(x.shape, dtype=x.dtype)
    addresses = [tensor.data_ptr() for tensor in (x, weight, bias, age, y)]
    arguments = (*addresses, age.numel(), channels, taps, x.stride(1), like(x))
    groups = thread_count(x.numel() * taps, -(-channels // LANES))
    run_threads(lambda thread, of: conv_kernels.forward(*arguments, thread, of), groups)
    return y


def conv_backward(
    grad_y: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    age: Tensor,
    grad_x: Tensor,
    *,
    learns: bool = True,
) -> tuple[Tensor | None, Tensor | None]:
    """Writes grad_x, evenly spaced, and gives the gradients of weight and bias, if it learns."""
    from resel.networks.ops.cpu import conv_kernels
    from resel.networks.ops.cpu.places import like
    from resel.networks.ops.cpu.vectors import LANES

    channels, taps = weight.shape
    found = [torch.empty_like(t) if learns else None for t in (weight, bias)]
    addresses = [tensor.data_ptr() for tensor in (x, weight, bias, age, grad_y, grad_x)]
    addresses += [0 if tensor is None else tensor.data_ptr() for tensor in found]
    steps = (x.stride(1), grad_x.stride(1))
    arguments = (*addresses, age.numel(), channels, taps, *steps, like(x))
    groups = thread_count(3 * grad_y.numel(), -(-channels // LANES))
    run_threads(lambda thread, of: conv_kernels.backward(*arguments, thread, of), groups)
    return found[0], found[1]


class _FusedConv(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, is_first: Tensor) -> Tensor:
        x, _ = spaced(x)
        given = (x, weight.contiguous(), bias.contiguous(), steps_since_first(is_first))
        ctx.save_for_backward(*given)
        return conv_forward(*given)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
        learns = ctx.needs_input_grad[1] or ctx.needs_input_grad[2]
        x, weight, bias, age = ctx.saved_tensors
        grad_x = torch.empty(grad_y.shape, dtype=grad_y.dtype)
        of_weights = conv_backward(grad_y.contiguous(), x, weight, bias, age, grad_x, learns=learns)
        return grad_x, *of_weights, None
