"""The critic ensemble against separate networks, one layer after another."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from resel.networks.ensemble import EnsembleMLP, plain_heads
from resel.networks.folding import Reading


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make_ensemble(heads: int, inputs: int, width: int, layers: int, outputs: int) -> EnsembleMLP:
    torch.manual_seed(0)
    ensemble = EnsembleMLP(heads, inputs, width, layers, outputs).double()
    with torch.no_grad():
        for bias in ensemble.biases:
            bias.normal_()
    return ensemble


def one_head(ensemble: EnsembleMLP, head: int, x: Tensor) -> Tensor:
    """A single MLP, layer after layer."""
    last = len(ensemble.weights) - 1
    for i, (weight, bias) in enumerate(zip(ensemble.weights, ensemble.biases, strict=True)):
        x = x @ weight[head].t() + bias[head]
        if i < last:
            x = torch.where(x > 0, x, torch.expm1(x))
    return x


@settings(max_examples=20, deadline=None)
@given(
    heads=st.integers(1, 5),
    inputs=st.integers(1, 6),
    width=st.integers(1, 9),
    layers=st.integers(1, 3),
    outputs=st.integers(1, 4),
    steps=st.integers(1, 12),
    data=st.data(),
)
def test_ensemble_equals_separate_heads(
    heads: int,
    inputs: int,
    width: int,
    layers: int,
    outputs: int,
    steps: int,
    data: st.DataObject,
) -> None:
    ensemble = make_ensemble(heads, inputs, width, layers, outputs)
    parameters = list(ensemble.parameters())
    subset = data.draw(st.none() | st.lists(st.sampled_from(range(heads)), min_size=1, unique=True))
    x = torch.randn(steps, inputs, generator=stream(), dtype=torch.float64, requires_grad=True)
    chosen = range(heads) if subset is None else subset
    expected = torch.stack([one_head(ensemble, head, x) for head in chosen])
    cuts = sorted(
        data.draw(st.lists(st.integers(1, inputs - 1), unique=True, max_size=2))
        if inputs > 1
        else []
    )
    parts = x.tensor_split(cuts, -1)
    y = ensemble(
        [Reading(part) for part in parts], None if subset is None else torch.tensor(subset)
    )
    assert y.shape == (len(chosen), steps, outputs)
    torch.testing.assert_close(y, expected, rtol=1e-11, atol=1e-12)

    weighting = torch.randn(y.shape, generator=stream(1), dtype=torch.float64)
    found = torch.autograd.grad((weighting * y).sum(), [x, *parameters])
    wanted = torch.autograd.grad((weighting * expected).sum(), [x, *parameters])
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("subset", [None, [2, 0]])
def test_frozen_heads_pass_gradients_on_without_taking_any(subset: list[int] | None) -> None:
    ensemble = make_ensemble(3, 4, 5, 2, 2)
    heads = None if subset is None else torch.tensor(subset)
    x = torch.randn(7, 4, generator=stream(), dtype=torch.float64, requires_grad=True)
    free, frozen = ensemble([Reading(x)], heads), ensemble([Reading(x)], heads, frozen=True)
    assert torch.equal(free, frozen)
    (expected,) = torch.autograd.grad(free.square().sum(), x)
    for parameter in ensemble.parameters():
        parameter.grad = None
    frozen.square().sum().backward()
    assert torch.equal(x.grad, expected)
    assert all(parameter.grad is None for parameter in ensemble.parameters())


def test_ensemble_in_float32() -> None:
    torch.manual_seed(0)
    ensemble = EnsembleMLP(8, 24, 32, 2, 1)
    x = torch.randn(50, 24)
    expected = torch.stack([one_head(ensemble, head, x) for head in range(8)])
    torch.testing.assert_close(ensemble([Reading(x)]), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ensemble_on_extreme_inputs(dtype: torch.dtype) -> None:
    ensemble = make_ensemble(2, 3, 4, 2, 1).to(dtype)
    x = torch.full((5, 3), -1e4, dtype=dtype, requires_grad=True)
    y = ensemble([Reading(x)])
    y.sum().backward()
    assert torch.isfinite(y).all() and torch.isfinite(x.grad).all()
    poisoned = torch.ones(5, 3, dtype=dtype)
    poisoned[2, 1] = float("nan")
    assert (
        torch.isnan(ensemble([Reading(poisoned)])).any(-1).any(0).tolist()
        == [False] * 2 + [True] + [False] * 2
    )


def test_ensemble_heads_begin_different_and_xavier() -> None:
    torch.manual_seed(0)
    ensemble = EnsembleMLP(8, 384, 256, 2, 1)
    for weight, (fan_in, fan_out) in zip(
        ensemble.weights, [(384, 256), (256, 256), (256, 1)], strict=True
    ):
        bound = math.sqrt(6 / (fan_in + fan_out))
        largest = weight.detach().abs().amax((1, 2))
        assert weight.shape == (8, fan_out, fan_in)
        assert torch.all((largest <= bound) & (largest > 0.97 * bound))
        assert len({float(head.detach().flatten()[0]) for head in weight}) == 8
    assert all(torch.all(bias == 0) for bias in ensemble.biases)


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 2), (1, 2), ()])
@pytest.mark.parametrize("outputs", [1, 3])
def test_gradients_only_of_the_parts_that_want_them(wanted: tuple[int, ...], outputs: int) -> None:
    ensemble = make_ensemble(3, 9, 5, 2, outputs)
    parts = [torch.randn(6, n, generator=stream(n), dtype=torch.float64) for n in (2, 4, 3)]
    for index in wanted:
        parts[index].requires_grad_()
    x = torch.cat([part.detach() for part in parts], -1).requires_grad_()
    weighting = torch.randn(3, 6, outputs, generator=stream(9), dtype=torch.float64)
    (expected,) = torch.autograd.grad((ensemble([Reading(x)]) * weighting).sum(), x)
    (ensemble([Reading(part) for part in parts]) * weighting).sum().backward()
    for part, theirs in zip(parts, expected.split([2, 4, 3], -1), strict=True):
        if part.requires_grad:
            torch.testing.assert_close(part.grad, theirs)
        else:
            assert part.grad is None


@pytest.mark.parametrize("outputs", [1, 4])
@pytest.mark.parametrize("threads", [1, 2])
def test_fused_heads_equal_plain_ones(outputs: int, threads: int) -> None:
    """At a size that two threads share, forward and backward, twice the same to the bit."""
    ensemble = make_ensemble(8, 12, 64, 2, outputs).float()
    x = torch.randn(700, 12, generator=stream())
    weighting = torch.randn(8, 700, outputs, generator=stream(1))
    leaves = [x.requires_grad_(), *ensemble.parameters()]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        fused = [
            torch.autograd.grad((ensemble([Reading(x)]) * weighting).sum(), leaves)
            for _ in range(2)
        ]
    finally:
        torch.set_num_threads(before)
    y = plain_heads(
        x.double(), [w.double() for w in ensemble.weights], [b.double() for b in ensemble.biases]
    )
    plain = torch.autograd.grad((y * weighting).sum(), leaves)
    for first, second, expected in zip(*fused, plain, strict=True):
        assert torch.equal(first, second)
        torch.testing.assert_close(first, expected, rtol=1e-4, atol=1e-4)
