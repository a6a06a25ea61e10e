"""Losses of contexts against numbers worked out by hand, and a determinant the slow way."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from resel import losses

# Two contexts of task 0, one of task 1, none of task 2, which was met before.
CONTEXT = torch.tensor([[0.1, 0.2], [0.3, 0.2], [-0.4, 0.0]], dtype=torch.float64)
OF_TASK = torch.tensor([[1, 0, 0], [1, 0, 0], [0, 1, 0]], dtype=torch.float64)
MOVING = torch.tensor([[0.2, 0.1], [-0.2, 0.0], [0.5, -0.5]], dtype=torch.float64)


def slow_det(matrix: Tensor) -> float:
    """The sum over all permutations."""
    size = len(matrix)
    total = 0.0
    for order in itertools.permutations(range(size)):
        swaps = sum(order[i] > order[j] for i in range(size) for j in range(i + 1, size))
        total += (-1) ** swaps * math.prod(float(matrix[i, order[i]]) for i in range(size))
    return total


def test_means_of_the_tasks_of_a_batch() -> None:
    means, present = losses.task_means(CONTEXT, OF_TASK)
    torch.testing.assert_close(means[:2], torch.tensor([[0.2, 0.2], [-0.4, 0.0]]).double())
    assert present.tolist() == [True, True, False] and not means[2].any()


def test_consistency_by_hand() -> None:
    # Squares: 0.01 and 0.01, 0.01 and 0.01, 0.04 and 0: 0.08 in all, over 6 numbers.
    distance = losses.consistency(CONTEXT, OF_TASK @ MOVING)
    assert distance.item() == pytest.approx(math.sqrt(0.08 / 6))


def test_contexts_that_are_close_enough_are_drawn_no_closer() -> None:
    for size, drawn in ((2e-3, True), (5e-4, False), (0.0, False)):
        context = torch.full((3, 2), size, dtype=torch.float64, requires_grad=True)
        distance = losses.consistency(context, torch.zeros(3, 2, dtype=torch.float64))
        assert distance.item() == pytest.approx(size, abs=1e-12)
        assert distance.requires_grad
        distance.backward()
        assert context.grad is not None and context.grad.isfinite().all()
        assert bool(context.grad.any()) == drawn


@pytest.mark.parametrize("sharpness", [3.0, 3000.0])
def test_diversity_by_the_slow_formula(sharpness: float) -> None:
    kernel = torch.zeros(3, 3, dtype=torch.float64)
    for j, k in itertools.product(range(3), repeat=2):
        parts = [math.exp(-sharpness * float(MOVING[j, n] - MOVING[k, n]) ** 2) for n in range(2)]
        kernel[j, k] = sum(parts) / 2 + (1e-3 if j == k else 0)
    everything = torch.ones(3, dtype=torch.bool)
    found = losses.diversity(MOVING, everything, sharpness)
    assert found.item() == pytest.approx(-math.log(slow_det(kernel)), rel=1e-9)
    some = torch.tensor([True, False, True])
    found = losses.diversity(MOVING, some, sharpness)
    assert found.item() == pytest.approx(-math.log(slow_det(kernel[some][:, some])), rel=1e-9)


def test_diversity_drives_means_apart_and_stays_finite_where_they_meet() -> None:
    means = torch.tensor([[0.10], [0.11]], requires_grad=True)
    known = torch.ones(2, dtype=torch.bool)
    losses.diversity(means, known, 3.0).backward()
    assert means.grad is not None and means.grad[0] > 0 > means.grad[1]  # it descends
    same = torch.zeros(40, 2, requires_grad=True)
    losses.diversity(same, torch.ones(40, dtype=torch.bool), 3000.0).backward()
    assert same.grad is not None and same.grad.isfinite().all()


def test_means_part_only_once_contexts_are_together() -> None:
    spread = torch.tensor(7.0)
    near, far = (losses.relation(torch.tensor(d), spread, (50.0, 0.004), 0.1) for d in (0.09, 0.1))
    assert near.item() == pytest.approx(4.528) and far.item() == pytest.approx(5.0)


def test_errors_of_estimates_and_of_foretold_changes() -> None:
    context = torch.tensor([[[0.5, 0.2], [1.0, -0.4]]])
    error = losses.parameter_error(context, torch.tensor([[[0.1], [1.0]]]))
    torch.testing.assert_close(error, torch.tensor([[(0.16 + 0.04) / 2, 0.16 / 2]]))
    change, now, after = (torch.tensor([[x]]) for x in ([1.0, 0.0], [2.0, 3.0], [2.5, 1.0]))
    error = losses.transition_error(change, now, after)
    torch.testing.assert_close(error, torch.tensor([[(0.25 + 4.0) / 2]]))
