"""Truncation and the quantile Huber loss against numbers one can follow."""

from __future__ import annotations

import torch

from resel import losses


def test_the_largest_of_all_critics_are_left_out() -> None:
    z = torch.tensor([[1.0, 5.0, 3.0], [2.0, 9.0, 8.0]])[:, None, None]  # (E, 1, 1, M)
    assert losses.truncated_quantiles(z, 1).tolist() == [[[1.0, 2.0, 3.0, 5.0]]]
    assert losses.truncated_quantiles(z, 0).shape[-1] == 6


def test_targets_stop_where_the_world_ends() -> None:
    y = losses.quantile_target(
        torch.tensor([[1.0, 1.0]]),
        torch.tensor([[0.0, 1.0]]),
        torch.tensor([[[2.0, 4.0], [7.0, 7.0]]]),
        torch.tensor([[10.0, 10.0]]),
        torch.tensor(0.1),
        0.5,
    )
    assert y.tolist() == [[[1.5, 2.5], [1.0, 1.0]]]


def test_errors_are_weighted_by_the_level_of_their_quantile() -> None:
    z = torch.zeros(1, 1, 1, 2)  # levels 1/4 and 3/4
    mask = torch.ones(1, 1, dtype=torch.bool)
    above = losses.quantile_huber_loss(z, torch.tensor([[[3.0]]]), mask, 1)
    below = losses.quantile_huber_loss(z, torch.tensor([[[-0.5]]]), mask, 1)
    assert above.item() == (0.25 * 2.5 + 0.75 * 2.5) / 2
    assert below.item() == (0.75 * 0.125 + 0.25 * 0.125) / 2


def test_the_minimum_is_the_quantile() -> None:
    y = torch.linspace(0, 100, 1001)[None, None]
    z = torch.zeros(1, 1, 1, 4, requires_grad=True)
    mask = torch.ones(1, 1, dtype=torch.bool)
    adam = torch.optim.Adam([z], lr=1.0)
    for _ in range(400):
        adam.zero_grad()
        losses.quantile_huber_loss(z, y, mask, 1).backward()
        adam.step()
    wanted = torch.tensor([12.5, 37.5, 62.5, 87.5])
    torch.testing.assert_close(z.detach().flatten(), wanted, rtol=0, atol=1.0)


def test_what_is_masked_does_not_count() -> None:
    z, y = torch.randn(2, 1, 3, 4), torch.randn(1, 3, 5)
    mask = torch.tensor([[True, False, True]])
    whole = losses.quantile_huber_loss(z, y, mask, 2)
    parts = [
        losses.quantile_huber_loss(z[:, :, [t]], y[:, [t]], mask[:, [t]], 1).item() for t in (0, 2)
    ]
    torch.testing.assert_close(whole.item(), sum(parts) / 2)
