"""A whole Mamba block on a CPU: norm, projections, convolution, scan and residual in one node.

Composed of single operations, a small block spends more time between them than in them: on nodes
of autograd, and on parts of projections that are cut out and put together again. Here the kernels
write where the next product reads.

Glossary
    N steps of all rows together, W width, D channels, S states per channel, R rank of the step size
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from resel.networks.ops._scan_inputs import ScanInputs
from resel.networks.ops.activation import bias_softplus_, softplus_backward_
from resel.networks.ops.conv import conv_backward, conv_forward, steps_since_first
from resel.networks.ops.norm import norm_backward, norm_forward
from resel.networks.ops.products import input_gradient, weight_gradient


class BlockWeights(NamedTuple):
    """The parameters of a block."""

    norm: Tensor
    """(W,)"""
    in_proj: Tensor
    """(2 D, W)"""
    conv_weight: Tensor
    """(D, taps)"""
    conv_bias: Tensor
    """(D,)"""
    x_proj: Tensor
    """(R + 2 S, D)"""
    dt_weight: Tensor
    """(D, R)"""
    dt_bias: Tensor
    """(D,)"""
    A_log: Tensor
    """(D, S)"""
    D: Tensor
    """(D,)"""
    out_proj: Tensor
    """(W, D)"""


def mamba_block(x: Tensor, is_first: Tensor, eps: float, weights: BlockWeights) -> Tensor:
    """x + block(x) for x (rows, length, W), on a CPU."""
    weights = BlockWeights(*(weight.contiguous() for weight in weights))
    if torch.is_grad_enabled():
        return _Block.apply(x, is_first, eps, *weights)  # type: ignore[no-any-return, no-untyped-call]
    return _forward(x, is_first, eps, weights, keep=False)[0]


def _forward(
    x: Tensor, is_first: Tensor, eps: float, weights: BlockWeights, *, keep: bool
) -> tuple[Tensor, ...]:
    """The result, and all that backward needs."""
    from resel.networks.ops.cpu import scan_call

    rows, length, width = x.shape
    channels, rank = weights.dt_weight.shape
    flat = x.reshape(-1, width)
    normed, scale = norm_forward(flat, weights.norm, eps)
    both = normed @ weights.in_proj.t()  # (N, 2 D): what is filtered, and the gate
    before, gate = both.view(rows, length, -1).chunk(2, -1)
    age = steps_since_first(is_first)
    u = conv_forward(before, weights.conv_weight, weights.conv_bias, age)
    chosen = u.view(-1, channels) @ weights.x_proj.t()  # (N, R + 2 S)
    delta = chosen[:, :rank] @ weights.dt_weight.t()
    bias_softplus_(delta, weights.dt_bias)
    A = weights.A_log.exp().neg_()
    inputs = _scan_inputs(u, delta, A, chosen, weights.D, gate, is_first)
    y, saved = scan_call.output(inputs, keep)
    out = torch.addmm(flat, y.view(-1, channels), weights.out_proj.t())
    return out.view(x.shape), flat, scale, normed, both, age, u, chosen, delta, A, y, saved


def _scan_inputs(
    u: Tensor, delta: Tensor, A: Tensor, chosen: Tensor, D: Tensor, gate: Tensor, is_first: Tensor
) -> ScanInputs:
    rows, length, _ = u.shape
    states = A.shape[1]
    rank = chosen.shape[1] - 2 * states
    _, B, C = torch.split(chosen.view(rows, length, -1), [rank, states, states], -1)
    return ScanInputs(u, delta.view(u.shape), A, B, C, D, gate, is_first)


class _Block(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, is_first: Tensor, eps: float, *weights: Tensor) -> Tensor:
        out, *kept = _forward(x, is_first, eps, BlockWeights(*weights), keep=True)
        ctx.save_for_backward(is_first, *kept, *weights)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        from resel.networks.ops.cpu import scan_call

        is_first, flat, scale, normed, both, age, u, chosen, delta, A, y, saved, *own = (
            ctx.saved_tensors
        )
        weights = BlockWeights(*own)
        rows, length, channels = u.shape
        rank = weights.dt_weight.shape[1]
        before, gate = both.view(rows, length, -1).chunk(2, -1)
        grad = grad_out.reshape(flat.shape)
        # Parts of what a projection made get their gradients side by side, as its own backward
        # reads them.
        grad_both = torch.empty_like(both)
        grad_before, grad_gate = grad_both.view(rows, length, -1).chunk(2, -1)

        grad_y = (grad @ weights.out_proj).view(u.shape)
        inputs = _scan_inputs(u, delta, A, chosen, weights.D, gate, is_first)
        grad_u, grad_delta, grad_A, grad_B, grad_C, grad_D = scan_call.gradients(
            grad_y, inputs, saved, grad_gate
        )
        grad_delta = grad_delta.view(-1, channels)
        of_dt_bias = softplus_backward_(grad_delta, delta)
        grad_rank = input_gradient(grad_delta, weights.dt_weight).view(rows, length, rank)
        grad_chosen = torch.cat([grad_rank, grad_B, grad_C], -1).view(chosen.shape)
        grad_u = torch.addmm(grad_u.view(-1, channels), grad_chosen, weights.x_proj)
        of_conv = conv_backward(
            grad_u, before, weights.conv_weight, weights.conv_bias, age, grad_before
        )
        grad_x, of_norm = norm_backward(grad_both @ weights.in_proj, flat, weights.norm, scale)
        return (
            grad_x.add_(grad).view(u.shape[0], u.shape[1], -1),
            None,
            None,
            of_norm,
            grad_both.t() @ normed,
            *of_conv,
            grad_chosen.t() @ u.view(-1, channels),
            weight_gradient(grad_delta, chosen[:, :rank]),
            of_dt_bias,
            grad_A.mul_(A),
            grad_D,
            grad.t() @ y.view(-1, channels),
        )
