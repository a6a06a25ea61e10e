"""Folded layers against the layers one after another."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from resel.networks.folding import Reading, fold
from resel.networks.layers import MLP


def _draw(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@settings(max_examples=40, deadline=None)
@given(
    kinds=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6), st.booleans()), min_size=1),
    outputs=st.integers(1, 5),
    rows=st.integers(1, 3),
    length=st.integers(1, 4),
)
def test_folded_equals_one_after_another(
    kinds: list[tuple[int, int, bool]], outputs: int, rows: int, length: int
) -> None:
    """(inputs, width, whether a layer is in front) of each kind: values and all gradients."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(1)
    readings, embedded, wanted = [], [], []
    for inputs, width, has_layer in kinds:
        x = _draw(generator, rows, length, inputs).requires_grad_()
        wanted.append(x)
        if has_layer:
            layer = nn.Linear(inputs, width).double()
            readings.append(Reading.through(layer, x))
            embedded.append(F.linear(x, layer.weight, layer.bias))
            wanted += [layer.weight, layer.bias]
        else:
            readings.append(Reading(x))
            embedded.append(x)
        torch.testing.assert_close(readings[-1].embedded(), embedded[-1])
    total = sum(reading.width for reading in readings)
    W = _draw(generator, outputs, total).requires_grad_()
    b = _draw(generator, outputs).requires_grad_()
    wanted += [W, b]

    weight, bias = fold(W, b, readings)
    found = F.linear(torch.cat([reading.x for reading in readings], -1), weight, bias)
    expected = F.linear(torch.cat(embedded, -1), W, b)
    torch.testing.assert_close(found, expected)
    weighting = _draw(generator, *found.shape)
    ours = torch.autograd.grad((weighting * found).sum(), wanted)
    theirs = torch.autograd.grad((weighting * expected).sum(), wanted)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_only_what_gets_smaller_is_folded() -> None:
    x = torch.randn(3, 2, 4)
    assert Reading.through(nn.Linear(4, 4), x).V is not None
    assert Reading.through(nn.Linear(4, 3), x).V is None, "more inputs than outputs"
    assert Reading.through(nn.Linear(4, 4), x[:1]).V is None, "for a few steps"


@pytest.mark.parametrize("inputs", [2, 5, 9])
def test_frozen_layers_take_no_gradient(inputs: int) -> None:
    torch.manual_seed(0)
    layer, W, b = nn.Linear(inputs, 4), torch.randn(3, 4), torch.randn(3)
    x = torch.randn(5, inputs, requires_grad=True)
    reading = Reading.through(layer, x, frozen=True)
    F.linear(reading.x, *fold(W, b, [reading])).sum().backward()
    assert x.grad is not None and layer.weight.grad is None and layer.bias.grad is None


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_an_mlp_folded_is_the_same_mlp(layers: int) -> None:
    torch.manual_seed(0)
    front, network = nn.Linear(2, 5).double(), MLP(8, 6, layers, 3).double()
    seen, context = (torch.randn(2, 7, n, dtype=torch.float64) for n in (2, 3))
    found = network.folded([Reading.through(front, seen), Reading(context)])
    torch.testing.assert_close(found, network(torch.cat([front(seen), context], -1)))
