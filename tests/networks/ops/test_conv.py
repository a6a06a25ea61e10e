"""The causal convolution against loops and against torch's, one trajectory at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from resel.networks.ops.conv import _conv_by_taps, causal_conv_silu, steps_since_first

Conv = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def random_start(rows: int, length: int, share: float, rng: torch.Generator) -> Tensor:
    return torch.rand(rows, length, generator=rng) < share


def segments(is_first: Tensor) -> list[tuple[int, int, int]]:
    """(row, begin, end) of every trajectory on a packed sequence."""
    found = []
    for row, flags in enumerate(is_first.tolist()):
        begins = [0, *(t for t, flag in enumerate(flags) if flag and t > 0)]
        found += [(row, b, e) for b, e in zip(begins, [*begins[1:], len(flags)], strict=True)]
    return found


def by_loop(x: Tensor, weight: Tensor, bias: Tensor, is_first: Tensor) -> Tensor:
    rows, length, channels = x.shape
    taps = weight.shape[1]
    y = [[[bias[c] for c in range(channels)] for _ in range(length)] for _ in range(rows)]
    for row, begin, end in segments(is_first):
        for t in range(begin, end):
            for j in range(min(taps, t - begin + 1)):
                for c in range(channels):
                    y[row][t][c] = y[row][t][c] + weight[c, j] * x[row, t - j, c]
    return F.silu(torch.stack([torch.stack([torch.stack(step) for step in row]) for row in y]))


def by_conv1d(x: Tensor, weight: Tensor, bias: Tensor, is_first: Tensor) -> Tensor:
    channels, taps = weight.shape
    y = torch.zeros_like(x)
    for row, begin, end in segments(is_first):
        padded = F.pad(x[row, begin:end].t()[None], (taps - 1, 0))  # (1, channels, taps - 1 + L)
        filtered = F.conv1d(padded, weight.flip(1)[:, None], bias, groups=channels)
        y = y.index_put((torch.tensor(row), torch.arange(begin, end)), filtered[0].t())
    return F.silu(y)


def outputs_and_gradients(conv: Conv, inputs: list[Tensor], is_first: Tensor) -> list[Tensor]:
    leaves = [t.clone().requires_grad_() for t in inputs]
    y = conv(*leaves, is_first)
    rng = torch.Generator().manual_seed(7)
    weighting = torch.randn(y.shape, generator=rng, dtype=torch.float64).to(y.dtype)
    return [y.detach(), *torch.autograd.grad((y * weighting).sum(), leaves)]


def random_inputs(
    rows: int, length: int, channels: int, taps: int, rng: torch.Generator
) -> list[Tensor]:
    shapes = [(rows, length, channels), (channels, taps), (channels,)]
    return [torch.randn(*shape, generator=rng, dtype=torch.float64) for shape in shapes]


@settings(max_examples=15, deadline=None)
@given(
    rows=st.integers(1, 2),
    length=st.integers(1, 9),
    channels=st.integers(1, 3),
    taps=st.integers(1, 8),
    share=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 10**6),
)
def test_equals_the_loop(
    rows: int, length: int, channels: int, taps: int, share: float, seed: int
) -> None:
    rng = torch.Generator().manual_seed(seed)
    inputs = random_inputs(rows, length, channels, taps, rng)
    is_first = random_start(rows, length, share, rng)
    expected = outputs_and_gradients(by_loop, inputs, is_first)
    for conv in (causal_conv_silu, _conv_by_taps):
        for found, wanted in zip(
            outputs_and_gradients(conv, inputs, is_first), expected, strict=True
        ):
            torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(1, 3),
    length=st.integers(1, 150),
    channels=st.sampled_from([1, 3, 17, 64]),
    taps=st.sampled_from([1, 2, 8, 9, 70]),
    share=st.sampled_from([0.0, 0.1, 0.6]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 10**6),
)
def test_equals_conv1d_on_each_trajectory(
    rows: int,
    length: int,
    channels: int,
    taps: int,
    share: float,
    dtype: torch.dtype,
    seed: int,
) -> None:
    rng = torch.Generator().manual_seed(seed)
    inputs = random_inputs(rows, length, channels, taps, rng)
    is_first = random_start(rows, length, share, rng)
    expected = outputs_and_gradients(by_conv1d, inputs, is_first)
    found = outputs_and_gradients(causal_conv_silu, [t.to(dtype) for t in inputs], is_first)
    close = 1e-11 if dtype == torch.float64 else 2e-4
    for value, wanted in zip(found, expected, strict=True):
        assert value.dtype == dtype
        torch.testing.assert_close(value.double(), wanted, rtol=close, atol=close)


def test_gradcheck() -> None:
    rng = torch.Generator().manual_seed(0)
    inputs = [t.requires_grad_() for t in random_inputs(2, 7, 2, 3, rng)]
    is_first = random_start(2, 7, 0.3, rng)
    assert torch.autograd.gradcheck(lambda *t: causal_conv_silu(*t, is_first), inputs)


def test_layouts_that_are_not_contiguous() -> None:
    rng = torch.Generator().manual_seed(0)
    x, weight, bias = random_inputs(2, 11, 6, 4, rng)
    is_first = random_start(2, 11, 0.2, rng)
    expected = outputs_and_gradients(causal_conv_silu, [x, weight, bias], is_first)
    half = torch.cat([x, -x], -1).chunk(2, -1)[0]  # as the mixer's projection is split
    flipped = weight.t().contiguous().t()
    stepped = torch.stack([bias, bias], -1)[..., 0]
    late = is_first.t().contiguous().t()
    assert not any(t.is_contiguous() for t in (half, flipped, stepped, late))
    leaves = [t.detach().requires_grad_() for t in (half, flipped, stepped)]
    y = causal_conv_silu(*leaves, late)
    assert torch.equal(y.detach(), expected[0])
    y.sum().backward()
    again = [t.clone().requires_grad_() for t in (x, weight, bias)]
    causal_conv_silu(*again, is_first).sum().backward()
    for leaf, other in zip(leaves, again, strict=True):
        assert leaf.grad is not None and other.grad is not None
        assert torch.equal(leaf.grad, other.grad)


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_nan_stays_in_its_trajectory(poison: float) -> None:
    rng = torch.Generator().manual_seed(0)
    inputs = random_inputs(1, 12, 3, 4, rng)
    is_first = torch.zeros(1, 12, dtype=torch.bool)
    is_first[0, 5] = is_first[0, 9] = True
    clean = causal_conv_silu(*inputs, is_first)
    inputs[0][0, 8] = poison
    dirty = causal_conv_silu(*inputs, is_first)
    assert torch.equal(clean[:, :8], dirty[:, :8])
    assert torch.equal(clean[:, 9:], dirty[:, 9:])
    assert not torch.isfinite(dirty[0, 8]).any()


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 2)])
def test_only_gradients_that_are_wanted(wanted: tuple[int, ...]) -> None:
    rng = torch.Generator().manual_seed(0)
    inputs = random_inputs(2, 11, 6, 4, rng)
    is_first = random_start(2, 11, 0.2, rng)
    all_of_them = [t.clone().requires_grad_() for t in inputs]
    expected = torch.autograd.grad(causal_conv_silu(*all_of_them, is_first).sum(), all_of_them)
    leaves = [t.clone().requires_grad_(i in wanted) for i, t in enumerate(inputs)]
    found = torch.autograd.grad(
        causal_conv_silu(*leaves, is_first).sum(), [leaves[i] for i in wanted]
    )
    assert all(torch.equal(g, expected[i]) for i, g in zip(wanted, found, strict=True))


def test_places_since_start() -> None:
    is_first = torch.tensor([[0, 0, 1, 0, 0, 1], [1, 1, 0, 0, 1, 0]], dtype=torch.bool)
    assert steps_since_first(is_first).tolist() == [[0, 1, 0, 1, 2, 0], [0, 0, 1, 2, 0, 1]]
    assert steps_since_first(is_first[:, :0]).shape == (2, 0)


def test_an_empty_tape() -> None:
    y = causal_conv_silu(
        torch.zeros(2, 0, 3), torch.ones(3, 4), torch.ones(3), torch.zeros(2, 0, dtype=torch.bool)
    )
    assert y.shape == (2, 0, 3)


def test_two_threads_agree_with_one() -> None:
    rng = torch.Generator().manual_seed(0)
    inputs = random_inputs(1, 600, 64, 8, rng)
    is_first = random_start(1, 600, 0.02, rng)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = outputs_and_gradients(causal_conv_silu, inputs, is_first)
        torch.set_num_threads(2)
        two = [outputs_and_gradients(causal_conv_silu, inputs, is_first) for _ in range(2)]
    finally:
        torch.set_num_threads(before)
    for alone, first, second in zip(one, *two, strict=True):
        torch.testing.assert_close(first, alone, rtol=1e-12, atol=1e-11)
        assert torch.equal(first, second)
