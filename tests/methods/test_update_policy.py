"""A step of the policy alone, at any rates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from resel.training import Trainer


def trained(make: Callable[..., Trainer], **settings: Any) -> Trainer:
    trainer = make({"discrete": True}, policy_delay=1, **settings)
    trainer.train(50)
    return trainer


def test_it_is_the_policy_step_of_an_update(make_trainer: Callable[..., Trainer]) -> None:
    # Discrete policies draw no noise, and a critic that stands still leaves the loss as it was.
    trainer = trained(make_trainer, lr_critic=1e-30, lr_context_encoder=1e-30)
    learner, batch = trainer.learner, trainer.sample()
    weights = {name: tensor.clone() for name, tensor in learner.weights().items()}
    state = learner.state()
    learner.update(batch)
    usual = {name: tensor.clone() for name, tensor in learner.policy.state_dict().items()}
    learner.load_weights(weights)
    learner.restore(*state)
    learner.update_policy(batch, 1e-30, trainer.config.algorithm.lr_policy)
    for name, tensor in learner.policy.state_dict().items():
        torch.testing.assert_close(tensor, usual[name], rtol=0, atol=0)


@pytest.mark.parametrize("rates", [(0.0, 0.0), (1e-3, 0.0), (0.0, 1e-3), (1e-3, 1e-3)])
def test_only_groups_with_a_rate_move(
    rates: tuple[float, float], make_trainer: Callable[..., Trainer]
) -> None:
    trainer = trained(make_trainer)
    learner = trainer.learner
    before = {name: tensor.clone() for name, tensor in learner.weights().items()}
    updates = learner.updates
    learner.update_policy(trainer.sample(), *rates)
    assert learner.updates == updates
    moved = {name for name, t in learner.weights().items() if not torch.equal(t, before[name])}
    for group, rate in zip(learner.groups["policy"], rates, strict=True):
        names = {f"policy.{name}" for name in group.parameters}
        assert bool(names & moved) == (rate > 0)
        moved -= names
    assert not moved
    learner.update_policy(trainer.sample(), 0.0, 0.0)
    learner.updates = 0
    learner.update(trainer.sample())  # back at the rates of the config
    after = learner.weights()
    assert not torch.equal(after["policy.head.1.weight"], before["policy.head.1.weight"])


def test_a_state_can_be_restored_again_and_again(make_trainer: Callable[..., Trainer]) -> None:
    trainer = trained(make_trainer)
    learner, batch = trainer.learner, trainer.sample()
    weights = {name: tensor.clone() for name, tensor in learner.weights().items()}
    state = learner.state()
    results = []
    for _ in range(3):
        learner.load_weights(weights)
        learner.restore(*state)
        learner.update_policy(batch, 1e-3, 1e-3)
        results.append(learner.policy.head[1].weight.detach().clone())
    assert torch.equal(results[0], results[1]) and torch.equal(results[1], results[2])
