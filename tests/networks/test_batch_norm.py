"""Batch normalisation over packed sequences, against torch's own over the real steps."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from resel.networks import BatchNorm, by_running_statistics

LENGTHS = [4, 2, 7, 3]
FEATURES = 5
TAKEN, LEFT_OUT = torch.tensor(0.0), torch.tensor(1.0)


def norm_and_torchs() -> tuple[BatchNorm, nn.BatchNorm1d]:
    ours, theirs = BatchNorm(FEATURES).double(), nn.BatchNorm1d(FEATURES).double()
    torch.manual_seed(0)
    with torch.no_grad():
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            one += 0.3 * torch.randn_like(one)
            other.copy_(one)
    return ours, theirs


def laid_out(steps: Tensor, rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """Trajectories of LENGTHS on so many rows with noise as padding: x, is_first, real."""
    pieces = steps.split(LENGTHS)
    lines = [[piece for i, piece in enumerate(pieces) if i % rows == r] for r in range(rows)]
    longest = max(sum(map(len, line)) for line in lines)
    x = 9 * torch.randn(rows, longest, FEATURES, dtype=torch.float64)
    is_first = torch.ones(rows, longest, dtype=torch.bool)
    real = torch.zeros(rows, longest, dtype=torch.bool)
    for r, line in enumerate(lines):
        at = 0
        for piece in line:
            x[r, at : at + len(piece)] = piece
            is_first[r, at + 1 : at + len(piece)] = False
            at += len(piece)
        real[r, :at] = True
    return x, is_first, real


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_padding_does_not_count(rows: int) -> None:
    """Outputs, gradients and running statistics are torch's over the real steps."""
    ours, theirs = norm_and_torchs()
    steps = 2 + 3 * torch.randn(sum(LENGTHS), FEATURES, dtype=torch.float64)
    x, is_first, real = laid_out(steps, rows)
    x.requires_grad_()
    alone = x[real].detach().requires_grad_()
    for _ in range(2):
        found, expected = ours(x, is_first)[real], theirs(alone)
        torch.testing.assert_close(found, expected)
        ours.keep(TAKEN)
    weighting = torch.randn_like(found)
    (grad,) = torch.autograd.grad((found * weighting).sum(), x)
    (wanted,) = torch.autograd.grad((expected * weighting).sum(), alone)
    torch.testing.assert_close(grad[real], wanted)
    assert not grad[~real].any()
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_variance, theirs.running_var)
    with by_running_statistics(ours):
        torch.testing.assert_close(ours(x, is_first)[real], theirs.eval()(alone))
    assert ours.training
    torch.testing.assert_close(ours.step(alone), theirs(alone))


def test_statistics_stay_where_a_step_was_left_out() -> None:
    ours, _ = norm_and_torchs()
    x, is_first, _ = laid_out(torch.randn(sum(LENGTHS), FEATURES, dtype=torch.float64), 1)
    x[0, 1, 2] = math.nan
    ours(x, is_first)
    ours.keep(LEFT_OUT)
    assert torch.equal(ours.running_mean, torch.zeros(FEATURES, dtype=torch.float64))
    assert torch.equal(ours.running_variance, torch.ones(FEATURES, dtype=torch.float64))
    ours.keep(TAKEN)  # what was seen in a step that was left out is gone
    assert torch.equal(ours.running_mean, torch.zeros(FEATURES, dtype=torch.float64))


def test_a_single_step_has_no_variance() -> None:
    ours, _ = norm_and_torchs()
    x = torch.randn(1, 1, FEATURES, dtype=torch.float64)
    torch.testing.assert_close(ours(x, torch.ones(1, 1, dtype=torch.bool)), ours.step(x))
