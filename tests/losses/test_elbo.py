"""How beliefs move, beside torch.distributions, and which of their slots count."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from resel import losses
from resel.networks import previous

FIRST = torch.tensor([[1, 0, 0, 1, 0, 1, 1], [1, 0, 0, 0, 0, 0, 0]]).bool()
"""Trials of two steps and of one, then padding; one of six steps."""
MASK = torch.tensor([[1, 1, 0, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 0]]).bool()


def test_the_chain_of_kl_beside_torch() -> None:
    torch.manual_seed(0)
    mean, log_var = torch.randn(2, 2, 7, 3, dtype=torch.float64).unbind()
    found = losses.gaussian_kl(
        mean, log_var / 2, previous(mean, FIRST), previous(log_var, FIRST) / 2
    )
    for row in range(2):
        for t in range(7):
            now = Normal(mean[row, t], (log_var[row, t] / 2).exp())
            if FIRST[row, t]:
                before = Normal(torch.zeros(3).double(), torch.ones(3).double())
            else:
                before = Normal(mean[row, t - 1], (log_var[row, t - 1] / 2).exp())
            assert found[row, t].item() == pytest.approx(kl_divergence(now, before).sum().item())


def test_the_observation_behind_the_last_step_has_a_belief_too_and_padding_has_none() -> None:
    holds = losses.with_last(MASK, FIRST)
    assert holds.int().tolist() == [[1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1, 1]]


def test_what_does_not_hold_does_not_count() -> None:
    kl, holds = torch.tensor([[1.0, float("nan")]]), torch.tensor([[True, False]])
    error = torch.tensor([[[2.0, float("inf")], [3.0, 4.0]]])
    pairs = torch.tensor([[[True, False], [True, False]]])
    found = losses.elbo_loss(kl, error, holds, pairs, 0.5, torch.tensor(2))
    assert [part.item() for part in found] == [2.75, 2.5, 0.5]
