"""GRU and LSTM over a packed sequence with start flags.

Torch's own layers know no resets and, on a CPU, spend most of their time between the steps.
`gru_tape` is a fused loop for CPUs; `by_trajectory` lets any torch recurrent layer run with one
trajectory per row and lays the results back onto the packed sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from resel.networks.ops.cpu.threads import run_threads, thread_count


def gru_packed(x: Tensor, is_first: Tensor, layer: nn.GRU, index: int) -> Tensor:
    """Layer `index` of a torch GRU over x (rows, length, features), h = 0 at each start."""
    weight_input, weight_hidden, bias_input, bias_hidden = (
        getattr(layer, f"{name}_l{index}")
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    from_input = F.linear(x, weight_input, bias_input)  # (rows, length, 3H)
    hidden = _FusedGRU.apply(  # type: ignore[no-untyped-call]
        from_input.flatten(0, 1), weight_hidden, bias_hidden, segment_bounds(is_first)
    )
    return hidden.view(*x.shape[:2], -1)  # type: ignore[no-any-return]


def segment_bounds(is_first: Tensor) -> Tensor:
    """Where trajectories begin among all steps, and the end of the last entry."""
    first = is_first.clone()
    first[:, :1] = True
    begins = first.flatten().nonzero().flatten()
    return torch.cat([begins, begins.new_tensor([is_first.numel()])])


def by_trajectory(x: Tensor, is_first: Tensor, run: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply `run` to (trajectories, longest, features) and return its result where it was."""
    bounds = segment_bounds(is_first)
    begin, lengths = bounds[:-1], bounds.diff()
    column = torch.arange(int(lengths.max()), device=x.device)
    inside = column < lengths[:, None]  # (trajectories, longest)
    source = torch.where(inside, begin[:, None] + column, torch.zeros_like(column))
    gathered = x.flatten(0, 1)[source]
    y = run(torch.where(inside[..., None], gathered, torch.zeros_like(gathered)))
    return y[inside].view(*x.shape[:2], -1)


class _FusedGRU(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, from_input: Tensor, weight: Tensor, bias: Tensor, bounds: Tensor
    ) -> Tensor:
        from resel.networks.ops.cpu import kernels

        size = weight.shape[1]
        from_input = from_input.contiguous()
        hidden = from_input.new_empty(from_input.shape[0], size)
        gates = from_input.new_empty(from_input.shape[0], 4 * size)
        arrays = [
            t.detach().numpy()
            for t in (from_input, weight.t().contiguous(), bias.contiguous(), bounds, hidden, gates)
        ]
        groups = thread_count(3 * hidden.numel() * size, bounds.numel() - 1)
        run_threads(lambda thread, of: kernels.gru_forward(*arrays, thread, of), groups)
        ctx.save_for_backward(weight, bounds, hidden, gates)
        return hidden

    @staticmethod
    def backward(ctx: Any, grad_hidden: Tensor) -> tuple[Tensor | None, ...]:
        from resel.networks.ops.cpu import kernels

        weight, bounds, hidden, gates = ctx.saved_tensors
        grad_input = hidden.new_empty(hidden.shape[0], weight.shape[0])
        grad_product = torch.empty_like(grad_input)
        arrays: list[np.ndarray[Any, Any]] = [
            t.detach().numpy()
            for t in (
                weight.contiguous(),
                bounds,
                hidden,
                gates,
                grad_hidden.contiguous(),
                grad_input,
                grad_product,
            )
        ]
        groups = thread_count(6 * hidden.numel() * weight.shape[1], bounds.numel() - 1)
        run_threads(lambda thread, of: kernels.gru_backward(*arrays, thread, of), groups)
        before = torch.cat([hidden.new_zeros(1, hidden.shape[1]), hidden[:-1]])
        before[bounds[:-1]] = 0
        return grad_input, grad_product.t() @ before, grad_product.sum(0), None
