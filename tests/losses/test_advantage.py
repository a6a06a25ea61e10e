"""Advantages against a loop over single episodes; PPO's losses against the paper's equation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from resel.losses import advantages, clipped_policy_term, clipped_value_term, normalized

GAMMA = 0.9


def packed(
    lengths: list[int], terminated: list[bool], seed: int = 0
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Episodes on one row: rewards, values, ends, mask and starts."""
    rng = np.random.default_rng(seed)
    total = sum(lengths) + len(lengths)
    reward, value = (torch.from_numpy(rng.normal(size=(1, total))) for _ in range(2))
    ended, mask = torch.zeros(1, total, dtype=torch.float64), torch.zeros(1, total).bool()
    first = torch.zeros(1, total).bool()
    at = 0
    for length, end in zip(lengths, terminated, strict=True):
        first[0, at] = True
        mask[0, at : at + length] = True
        ended[0, at + length - 1] = float(end)
        at += length + 1
    return reward, value, ended, mask, first


@pytest.mark.parametrize("gae_lambda", [0.0, 0.7, 1.0])
def test_against_a_loop(gae_lambda: float) -> None:
    lengths, ends = [3, 1, 4], [True, False, False]
    reward, value, ended, mask, first = packed(lengths, ends)
    found = advantages(reward, value, ended, mask, first, GAMMA, gae_lambda)
    at = 0
    for length, end in zip(lengths, ends, strict=True):
        r, v = reward[0, at : at + length].tolist(), value[0, at : at + length + 1].tolist()
        if end:
            v[-1] = 0.0
        delta = [r[t] + GAMMA * v[t + 1] - v[t] for t in range(length)]
        for t in range(length):
            expected = sum((GAMMA * gae_lambda) ** k * d for k, d in enumerate(delta[t:]))
            assert found[0, at + t].item() == pytest.approx(expected)
        assert found[0, at + length] == 0
        at += length + 1


def test_far_sighted_advantages_are_returns_less_values() -> None:
    reward, value, ended, mask, first = packed([5], [True])
    found = advantages(reward, value, ended, mask, first, GAMMA, 1.0)
    returns = sum(GAMMA**t * reward[0, t] for t in range(5))
    assert found[0, 0].item() == pytest.approx(float(returns - value[0, 0]))


def test_dropped_steps_teach_nothing_and_pass_nothing_on() -> None:
    reward, value, ended, mask, first = packed([4], [False])
    dropped = torch.zeros_like(mask)
    dropped[0, 3] = True
    found = advantages(reward, value, ended, mask, first, GAMMA, 0.95, dropped)
    assert found[0, 3] == 0
    expected = reward[0, 2] + GAMMA * value[0, 3] - value[0, 2]
    assert found[0, 2].item() == pytest.approx(float(expected))


def test_normalized() -> None:
    advantage, mask = (
        torch.tensor([[1.0, 2.0, 9.0, 3.0]]),
        torch.tensor([[True, True, False, True]]),
    )
    found = normalized(advantage, mask)[mask]
    assert found.mean().item() == pytest.approx(0, abs=1e-6)
    assert found.std().item() == pytest.approx(1, rel=1e-4)
    assert torch.isfinite(normalized(advantage, torch.tensor([[True, False, False, False]]))).all()


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"),
    [(1.0, 2.0, -2.0), (1.5, 2.0, -2.4), (0.5, 2.0, -1.0), (0.5, -2.0, 1.6), (1.5, -2.0, 3.0)],
)
def test_clipped_policy(ratio: float, advantage: float, expected: float) -> None:
    acted = torch.tensor([-1.0])
    found = clipped_policy_term(acted + np.log(ratio), acted, torch.tensor([advantage]), 0.2)
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_clipped_value() -> None:
    acted, target = torch.zeros(3), torch.tensor([1.0, 1.0, 1.0])
    found = clipped_value_term(torch.tensor([0.1, 0.9, -0.5]), acted, target, 0.2)
    assert found.tolist() == pytest.approx([0.81, 0.64, 2.25])
