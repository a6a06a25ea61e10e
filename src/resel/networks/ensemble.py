"""The critic ensemble: E independent MLPs on the same input.

Glossary
    N steps, E heads, I inputs, H hidden width, O outputs

The first layer is one matrix product for all heads, later ones are batched over the heads. On a
CPU, bias, ELU and a last layer of one output take a single pass over the activations, and gradients
are formed only where they are wanted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from resel.networks.folding import Reading, fold, fold_backward, fold_forward
from resel.networks.ops.activation import bias_elu_, elu_backward_
from resel.networks.ops.cpu.threads import run_threads, thread_count
from resel.networks.ops.products import input_gradient, weight_gradient


class EnsembleMLP(nn.Module):
    """Hidden layers with ELU and a linear output, E times, drawn independently."""

    cpu_kernel: ClassVar[str] = "kernels.bias_elu"
    """The first that it needs there."""

    def __init__(self, heads: int, inputs: int, width: int, layers: int, outputs: int) -> None:
        super().__init__()
        sizes = [inputs] + [width] * layers + [outputs]
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for fan_in, fan_out in itertools.pairwise(sizes):
            bound = math.sqrt(6 / (fan_in + fan_out))  # Xavier, for each head on its own
            self.weights.append(torch.empty(heads, fan_out, fan_in).uniform_(-bound, bound))
            self.biases.append(torch.zeros(heads, fan_out))

    def forward(
        self, readings: Sequence[Reading], heads: Tensor | None = None, *, frozen: bool = False
    ) -> Tensor:  # each (..., some of I) -> (E, N, O)
        """Values of all heads or of those named; `frozen` keeps gradients off the weights.

        What is read comes side by side; gradients are formed only for what needs them.
        """
        weights: list[Tensor] = list(self.weights)
        biases: list[Tensor] = list(self.biases)
        if frozen:
            weights = [w.detach() for w in weights]
            biases = [b.detach() for b in biases]
        if heads is not None:
            weights = [w.index_select(0, heads) for w in weights]
            biases = [b.index_select(0, heads) for b in biases]
        parts = [reading.x.flatten(0, -2) for reading in readings]
        if parts[0].device.type == "cpu":
            widths = [reading.width for reading in readings]
            layers = [part for reading in readings for part in reading[1:]]
            return _FusedHeads.apply(widths, *parts, *layers, *weights, *biases)  # type: ignore[no-any-return, no-untyped-call]
        first, bias = fold(weights[0].flatten(0, 1), biases[0].flatten(), readings)
        weights[0], biases[0] = first.view(*weights[0].shape[:2], -1), bias.view_as(biases[0])
        return plain_heads(torch.cat(parts, -1), weights, biases)


def plain_heads(
    x: Tensor,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    activation: Callable[[Tensor], Tensor] = F.elu,
) -> Tensor:
    """The heads with torch's own operations: weights (E, out, in), biases (E, out).

    x is (N, I), or (E, N, I) for heads that read different things.
    """
    if x.dim() == 2:
        y = x @ weights[0].flatten(0, 1).t()  # (N, E H)
        y = y.view(x.shape[0], weights[0].shape[0], -1).transpose(0, 1) + biases[0][:, None]
    else:
        y = torch.baddbmm(biases[0][:, None], x, weights[0].transpose(1, 2))
    h = activation(y)  # (E, N, H)
    for w, b in zip(weights[1:-1], biases[1:-1], strict=True):
        h = activation(torch.baddbmm(b[:, None], h, w.transpose(1, 2)))
    return torch.baddbmm(biases[-1][:, None], h, weights[-1].transpose(1, 2))


class _FusedHeads(torch.autograd.Function):
    """Arguments: what is read, with the layers folded in, the weights and the biases.

    Of every reading comes its width, then x; then V and c of every reading.
    """

    @staticmethod
    def forward(ctx: Any, widths: list[int], *tensors: Any) -> Tensor:
        count = len(widths)
        parts, folded, given = tensors[:count], tensors[count : 3 * count], tensors[3 * count :]
        depth = len(given) // 2
        weights, biases = given[:depth], given[depth:]
        x = torch.cat(parts, -1) if count > 1 else parts[0]  # (N, I)
        heads, width, _ = weights[0].shape
        single = weights[-1].shape[1] == 1 and depth > 2
        first, bias = fold_forward(widths, weights[0].flatten(0, 1), biases[0].view(-1), folded)
        y = x @ first.t()  # (N, E H)
        bias_elu_(y[None], bias)
        hidden = [y.view(-1, heads, width).transpose(0, 1)]  # (E, N, H)
        for i in range(1, depth - 1):
            y = torch.bmm(hidden[-1], weights[i].transpose(1, 2))
            if i < depth - 2 or not single:
                bias_elu_(y, biases[i])
            hidden.append(y)
        if single:
            output = _elu_and_readout(hidden[-1], biases[-2], weights[-1], biases[-1])
        else:
            output = torch.baddbmm(biases[-1][:, None], hidden[-1], weights[-1].transpose(1, 2))
        ctx.widths, ctx.inputs, ctx.single = widths, [part.shape[-1] for part in parts], single
        ctx.save_for_backward(x, first, *folded, *hidden, *weights)
        return output

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        count = len(ctx.widths)
        x, first, *rest = ctx.saved_tensors
        folded, rest = rest[: 2 * count], rest[2 * count :]
        depth = (len(rest) + 1) // 2
        hidden, weights = rest[: depth - 1], rest[depth - 1 :]
        learns = any(ctx.needs_input_grad[1 + count :])
        grad_weights: list[Tensor | None] = [None] * depth
        grad_biases: list[Tensor | None] = [None] * depth
        d = grad_output  # (E, N, O), then (E, N, H) before the bias and ELU of each layer
        for i in range(depth - 1, 0, -1):
            if i == depth - 1 and ctx.single:
                grad_biases[i] = d.sum(1) if learns else None
                d, grad_biases[i - 1], grad_weights[i] = _readout_backward(
                    hidden[i - 1], weights[i], d, learns
                )
                continue
            if learns:
                grad_weights[i] = torch.bmm(d.transpose(1, 2), hidden[i - 1])
                if i == depth - 1:
                    grad_biases[i] = d.sum(1)
            if i > 1:
                d = torch.bmm(d, weights[i])
                grad_biases[i - 1] = elu_backward_(d, hidden[i - 1], sums=learns)
            else:  # back to the layout of the first layer
                wide = d.new_empty(x.shape[0], *weights[0].shape[:2])  # (N, E, H)
                torch.bmm(d, weights[1], out=wide.transpose(0, 1))
                d = wide.flatten(1)  # (N, E H)
                before = hidden[0].transpose(0, 1).flatten(1)
                grad_biases[0] = elu_backward_(d[None], before[None], sums=learns)
        found: list[Tensor | None] = [None] * (2 * count)
        of_bias = grad_biases[0]
        if of_bias is not None:
            of_bias = of_bias.view(-1)
            wanted = ctx.needs_input_grad[1 + count : 1 + 3 * count : 2]
            whole = weights[0].flatten(0, 1)
            of_first = weight_gradient(d, x)  # (E H, I)
            given = (folded, of_first, of_bias, True, wanted)
            of_whole, found = fold_backward(ctx.widths, whole, *given)
            assert of_whole is not None
            grad_weights[0] = of_whole.view_as(weights[0])
            grad_biases[0] = of_bias.view(weights[0].shape[:2])
        of_parts = _gradients_of_parts(d, first, ctx.inputs, ctx.needs_input_grad[1 : 1 + count])
        return None, *of_parts, *found, *grad_weights, *grad_biases


def _elu_and_readout(x: Tensor, bias: Tensor, weight: Tensor, offset: Tensor) -> Tensor:
    """x (E, N, H) becomes elu(x + bias); the result is (E, N, 1) for weight (E, 1, H)."""
    from resel.networks.ops.cpu import kernels
    from resel.networks.ops.cpu.places import like

    output = torch.empty(*x.shape[:2], 1, dtype=x.dtype)
    layer = [tensor.contiguous() for tensor in (bias, weight, offset)]
    addresses = [tensor.data_ptr() for tensor in (x, *layer, output)]
    arguments = (*addresses, *x.shape, like(x))
    groups = thread_count(x.numel(), x.shape[1])
    run_threads(lambda thread, of: kernels.bias_elu_readout(*arguments, thread, of), groups)
    return output


def _readout_backward(
    y: Tensor, weight: Tensor, grad_output: Tensor, learns: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Gradients before bias and ELU (E, N, H), of the bias (E, H) and of the weight (E, 1, H)."""
    from resel.networks.ops.cpu import kernels
    from resel.networks.ops.cpu.places import like

    heads, steps, width = y.shape
    groups = thread_count(y.numel(), steps)
    grad = torch.empty(y.shape, dtype=y.dtype)
    weight, grad_output = weight.contiguous(), grad_output.contiguous()
    sums = torch.zeros(2, groups, heads, width, dtype=y.dtype) if learns else None
    addresses = [tensor.data_ptr() for tensor in (y, weight, grad_output, grad)]
    to = 0 if sums is None else sums.data_ptr()
    arguments = (*addresses, to, heads, steps, width, like(y))
    run_threads(lambda thread, of: kernels.readout_backward(*arguments, thread, of), groups)
    if sums is None:
        return grad, None, None
    of_bias, of_weight = (sums.sum(1) if groups > 1 else sums[:, 0]).unbind()
    return grad, of_bias, of_weight[:, None]


def _gradients_of_parts(
    d: Tensor, weight: Tensor, widths: Sequence[int], wanted: Sequence[bool]
) -> list[Tensor | None]:
    """d (N, E H) times the columns of weight (E H, I) from the first wanted part to the last."""
    first, last = _span(widths, wanted)
    grad = input_gradient(d, weight[:, first:last]) if last > first else d
    begins = itertools.accumulate(widths, initial=-first)
    return [
        grad[:, begin : begin + width] if want else None
        for begin, width, want in zip(begins, widths, wanted, strict=False)
    ]


def _span(widths: Sequence[int], wanted: Sequence[bool]) -> tuple[int, int]:
    """The columns from the first wanted part to the last."""
    ends = list(itertools.accumulate(widths))
    chosen = [i for i, want in enumerate(wanted) if want]
    if not chosen:
        return 0, 0
    return ends[chosen[0]] - widths[chosen[0]], ends[chosen[-1]]
