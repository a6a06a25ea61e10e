"""Rewards divided by the deviation of discounted returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from resel.networks import RewardScale


def test_it_divides_by_the_deviation_of_all_returns() -> None:
    rng = np.random.default_rng(1)
    episodes = [rng.normal(5, 3, n).astype(np.float32) for n in (1, 7, 40)]
    scale, gamma = RewardScale(0.9, enabled=True), 0.9
    returns = []
    for rewards in episodes:
        scale.add_episode(rewards)
        returns += [
            sum(gamma ** (t - k) * float(rewards[k]) for k in range(t + 1))
            for t in range(len(rewards))
        ]
    reward = torch.tensor([2.0, -1.0])
    torch.testing.assert_close(scale(reward), reward / np.std(returns), rtol=1e-5, atol=0)


def test_nothing_seen_and_nothing_but_zeros_change_nothing() -> None:
    reward = torch.tensor([2.0, -1.0])
    scale = RewardScale(0.9, enabled=True)
    assert torch.equal(scale(reward), reward)
    scale.add_episode(np.zeros(5, np.float32))
    assert torch.equal(scale(reward), reward)
    off = RewardScale(0.9, enabled=False)
    off.add_episode(np.ones(5, np.float32))
    assert torch.equal(off(reward), reward)


def test_a_learner_scales_its_targets_and_keeps_the_scale(make_trainer: Any) -> None:
    one, two = (make_trainer({}, normalize_rewards=True) for _ in range(2))
    one.train(40)
    learner = one.learner
    deviation = float(learner.reward_scale.deviation)
    assert deviation != 1.0
    batch = one.sample()
    torch.testing.assert_close(learner.rewards(batch), batch.reward / deviation)
    two.learner.load_weights(learner.weights())
    assert float(two.learner.reward_scale.deviation) == deviation
    assert not any("reward_scale" in name for name in make_trainer({}).learner.weights())
