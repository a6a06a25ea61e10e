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
    return _Fold.apply(widths, W, b, *layers)  # type: ignore[no-any-return, no-untyped-call]


class _Fold(torch.autograd.Function):
    """Written out: torch's own graph of so many small products takes longer than they do."""

    @staticmethod
    def forward(
        ctx: Any, widths: list[int], W: Tensor, b: Tensor, *layers: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        parts = []
        for columns, V, c in zip(torch.split(W, widths, 1), layers[::2], layers[1::2], strict=True):
            parts.append(columns if V is None else columns @ V)
            b = b if c is None else torch.addmv(b, columns, c)
        ctx.widths = widths
        ctx.save_for_backward(W, *layers)
        return torch.cat(parts, 1), b

    @staticmethod
    def backward(ctx: Any, grad: Tensor, grad_b: Tensor) -> tuple[Tensor | None, ...]:
        W, *layers = ctx.saved_tensors
        grad_W = torch.empty_like(W) if ctx.needs_input_grad[1] else None
        found: list[Tensor | None] = []
        begin = 0
        ends = itertools.accumulate(ctx.widths)
        wanted = ctx.needs_input_grad[3::2]
        for end, width, V, c, want in zip(
            ends, ctx.widths, layers[::2], layers[1::2], wanted, strict=True
        ):
            columns = slice(end - width, end)
            inputs = width if V is None else V.shape[1]
            own = grad[:, begin : begin + inputs]  # (outputs, inputs)
            begin += inputs
            if grad_W is not None:
                of_W = grad_W[:, columns]
                if V is None:
                    of_W.copy_(own)
                else:
                    torch.addmm(torch.outer(grad_b, c), own, V.t(), out=of_W)
            back = W[:, columns].t()
            found += [back @ own, back @ grad_b] if want else [None, None]
        return None, grad_W, grad_b, *found
