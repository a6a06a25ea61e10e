"""Linear layers with no activation behind them, folded into the layer that reads them.

    W [V_1 x_1 + c_1, V_2 x_2 + c_2, ...] + b  =  [W_1 V_1, W_2 V_2, ...] [x_1, x_2, ...] + b'

The left side makes many numbers of a step's few and multiplies those; the right one multiplies the
few, and forms W V once for all steps of a batch. Results and gradients are the same but for
rounding.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from resel.networks.ops.activation import bias_elu_, dense_elu, elu_backward_
from resel.networks.ops.products import weight_gradient


class Reading(NamedTuple):
    """What a layer reads of one kind: x (..., inputs), or V x + c where there is V."""

    x: Tensor
    V: Tensor | None = None
    """(width, inputs)"""
    c: Tensor | None = None
    """(width,); there if V is."""

    @classmethod
    def through(cls, layer: nn.Linear, x: Tensor, *, frozen: bool = False) -> Reading:
        """What `layer` makes of x; `frozen` keeps gradients off its weights."""
        weight, bias = layer.weight, layer.bias
        if frozen:
            weight, bias = weight.detach(), bias.detach()  # type: ignore[assignment]
        rows = x.numel() // layer.in_features
        if layer.in_features <= min(layer.out_features, rows):
            return cls(x, weight, bias)
        # To fold what has more inputs than outputs, or for a few steps, would be more work.
        return cls(nn.functional.linear(x, weight, bias))

    def embedded(self) -> Tensor:
        """It as the layer behind it would read it. (..., width)"""
        return self.x if self.V is None else nn.functional.linear(self.x, self.V, self.c)

    @property
    def width(self) -> int:
        """Columns of W that belong to it."""
        return self.x.shape[-1] if self.V is None else self.V.shape[0]


def fold(W: Tensor, b: Tensor, readings: Sequence[Reading]) -> tuple[Tensor, Tensor]:
    """Weight and bias of the layer W (outputs, widths together), b on the x side by side."""
    if all(reading.V is None for reading in readings):
        return W, b
    layers = [part for reading in readings for part in reading[1:]]
    widths = [reading.width for reading in readings]
    if not torch.is_grad_enabled():
        return fold_forward(widths, W, b, layers)
    return _Fold.apply(widths, W, b, *layers)  # type: ignore[no-any-return, no-untyped-call]


def dense_elu_folded(W: Tensor, b: Tensor, readings: Sequence[Reading]) -> Tensor:
    """elu(W [...] + b) of the readings side by side."""
    x = torch.cat([reading.x for reading in readings], -1)
    widths = [reading.width for reading in readings]
    layers = [part for reading in readings for part in reading[1:]]
    on_cpu = x.device.type == "cpu" and not torch.compiler.is_compiling()
    if on_cpu and torch.is_grad_enabled() and not x.requires_grad:
        y = _FoldedDense.apply(widths, x.flatten(0, -2), W, b, *layers)  # type: ignore[no-untyped-call]
        return y.view(*x.shape[:-1], -1)  # type: ignore[no-any-return]
    return dense_elu(x, *fold(W, b, readings))


def fold_forward(
    widths: Sequence[int], W: Tensor, b: Tensor, layers: Sequence[Tensor | None]
) -> tuple[Tensor, Tensor]:
    """`fold` of layers V, c, V, c, ..., without what its gradient needs."""
    if all(V is None for V in layers):
        return W, b
    parts = []
    for columns, V, c in zip(
        torch.split(W, list(widths), 1), layers[::2], layers[1::2], strict=True
    ):
        parts.append(columns if V is None else columns @ V)
        b = b if c is None else torch.addmv(b, columns, c)
    return torch.cat(parts, 1), b


def fold_backward(
    widths: Sequence[int],
    W: Tensor,
    layers: Sequence[Tensor | None],
    grad: Tensor,
    grad_b: Tensor,
    learns: bool,
    wanted: Sequence[bool],
) -> tuple[Tensor | None, list[Tensor | None]]:
    """The gradient of W if it learns, and those of the layers; that of b is grad_b itself."""
    if all(V is None for V in layers):
        return grad if learns else None, [None] * len(layers)
    grad_W = torch.empty_like(W) if learns else None
    found: list[Tensor | None] = []
    begin = 0
    ends = itertools.accumulate(widths)
    for end, width, V, c, want in zip(ends, widths, layers[::2], layers[1::2], wanted, strict=True):
        columns = slice(end - width, end)
        inputs = width if V is None else V.shape[1]
        own = grad[:, begin : begin + inputs]  # (outputs, inputs)
        begin += inputs
        if grad_W is not None:
            of_W = grad_W[:, columns]
            if V is None or c is None:
                of_W.copy_(own)
            else:
                torch.addmm(torch.outer(grad_b, c), own, V.t(), out=of_W)
        back = W[:, columns].t()
        found += [back @ own, back @ grad_b] if want else [None, None]
    return grad_W, found


class _Fold(torch.autograd.Function):
    """Written out: torch's own graph of so many small products takes longer than they do."""

    @staticmethod
    def forward(
        ctx: Any, widths: list[int], W: Tensor, b: Tensor, *layers: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        ctx.widths = widths
        ctx.save_for_backward(W, *layers)
        return fold_forward(widths, W, b, layers)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, grad_b: Tensor) -> tuple[Tensor | None, ...]:
        W, *layers = ctx.saved_tensors
        _, learns, _, *wanted = ctx.needs_input_grad
        grad_W, found = fold_backward(ctx.widths, W, layers, grad, grad_b, learns, wanted[::2])
        return None, grad_W, grad_b, *found


class _FoldedDense(torch.autograd.Function):
    """The folding, the layer and its ELU on a CPU in one, for inputs that take no gradient."""

    @staticmethod
    def forward(
        ctx: Any, widths: list[int], x: Tensor, W: Tensor, b: Tensor, *layers: Tensor | None
    ) -> Tensor:
        weight, bias = fold_forward(widths, W, b, layers)
        y = x @ weight.t()
        bias_elu_(y[None], bias)
        ctx.widths = widths
        ctx.save_for_backward(x, y, W, *layers)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
        x, y, W, *layers = ctx.saved_tensors
        _, _, learns, _, *wanted = ctx.needs_input_grad
        grad = grad_y.clone(memory_format=torch.contiguous_format)
        sums = elu_backward_(grad[None], y[None])
        assert sums is not None
        grad_b = sums[0]
        grad_W, found = fold_backward(
            ctx.widths, W, layers, weight_gradient(grad, x), grad_b, learns, wanted[::2]
        )
        return None, None, grad_W, grad_b, *found
