"""Short causal convolution, one filter per channel, that never looks across a start flag."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from resel.networks import _threads


def causal_conv(x: Tensor, weight: Tensor, bias: Tensor, start: Tensor) -> Tensor:
    """y_t = bias + sum_j weight[:, j] x_{t-j}, over taps j that lie in t's own trajectory.

    x is (rows, length, channels), weight (channels, taps), bias (channels,), start (rows, length).
    """
    if x.device.type == "cpu":
        return _FusedConv.apply(x, weight, bias, start)  # type: ignore[no-any-return, no-untyped-call]
    return _conv_by_taps(x, weight, bias, start)


def places_since_start(start: Tensor) -> Tensor:
    """How many places of a row lie between each place and its trajectory's first. (rows, length)"""
    if start.device.type == "cpu":
        from resel.networks import _kernels

        age = torch.empty(start.shape, dtype=torch.int64)
        _kernels.ages(start.contiguous().numpy(), age.numpy())
        return age
    place = torch.arange(start.shape[1], device=start.device).expand_as(start)
    first = torch.where(start, place, torch.zeros_like(place))
    return place - first.cummax(1).values if start.shape[1] else place


def _conv_by_taps(x: Tensor, weight: Tensor, bias: Tensor, start: Tensor) -> Tensor:
    """The same with torch operations, for devices without a kernel and for the tests."""
    length = x.shape[1]
    age = places_since_start(start)[..., None]  # (rows, length, 1)
    y = bias + weight[:, 0] * x
    for j in range(1, min(weight.shape[1], length)):
        shifted = torch.nn.functional.pad(x[:, : length - j], (0, 0, j, 0))
        y = y + weight[:, j] * torch.where(age >= j, shifted, torch.zeros_like(shifted))
    return y


class _FusedConv(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, start: Tensor) -> Tensor:
        from resel.networks import _kernels

        flat = x.contiguous().flatten(0, 1)
        by_tap = weight.detach().t().contiguous()  # (taps, channels)
        age = places_since_start(start).flatten()
        y = torch.empty_like(flat)
        arrays = [t.detach().numpy() for t in (flat, by_tap, bias.contiguous(), age, y)]
        groups = _threads.group_count(x.numel() * weight.shape[1], age.numel())
        _threads.run_groups(lambda group, of: _kernels.conv_forward(*arrays, group, of), groups)
        ctx.save_for_backward(flat, by_tap, age)
        return y.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
        from resel.networks import _kernels

        x, by_tap, age = ctx.saved_tensors
        grad_x = torch.empty_like(x)
        grad_weight = torch.zeros_like(by_tap)
        grad_bias = by_tap.new_zeros(by_tap.shape[1])
        given = grad_y.contiguous().flatten(0, 1)
        tensors = (x, by_tap, age, given, grad_x, grad_weight, grad_bias)
        arrays = [t.numpy() for t in tensors]
        groups = _threads.group_count(x.numel() * by_tap.shape[0], by_tap.shape[1])
        _threads.run_groups(lambda group, of: _kernels.conv_backward(*arrays, group, of), groups)
        return grad_x.view_as(grad_y), grad_weight.t(), grad_bias, None
