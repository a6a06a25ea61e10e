"""The automatic rate of the context encoder arrives where both steps move the output alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from resel.errors import ConfigError
from resel.optim import MEASURE_EVERY
from resel.optim.auto_rate import AutoRate
from resel.optim.groups import ParameterGroup, adam_steps, build_optimizer
from resel.training import Trainer


def two_groups(
    gain: float, start: float
) -> tuple[AutoRate, torch.optim.Optimizer, Callable[[], torch.Tensor]]:
    """An encoder whose step moves the output `gain` times as far as one of the other layer."""
    encoder, other = torch.zeros(3).requires_grad_(), torch.zeros(3).requires_grad_()
    groups = [ParameterGroup("context_encoder", {"a": encoder}, 1e-3)]
    groups += [ParameterGroup("other", {"b": other}, 1e-3)]
    optimizer = build_optimizer(groups)
    for group in groups:
        assert group.block.grad is not None
        group.block.grad.fill_(1.0)
    optimizer.step()
    rate = AutoRate(groups, optimizer, start)
    return rate, optimizer, lambda: (gain * encoder + other)[:, None].double()


@pytest.mark.parametrize("start", [1e-7, 1e-5, 1e-3])
def test_it_arrives_at_the_same_rate_from_anywhere(start: float) -> None:
    rate, _, outputs = two_groups(100.0, start)
    for _ in range(60):
        rate.steer(outputs)
    assert rate.lr == pytest.approx(1e-5, rel=1e-3)
    metrics = rate.metrics("policy")
    assert metrics["variation/policy/context_encoder"] == pytest.approx(1e-3, rel=0.01)
    assert metrics["variation/policy/other"] == pytest.approx(1e-3, rel=0.01)


@pytest.mark.parametrize(("gain", "factor"), [(1e-3, 1.0), (1e5, 1e-4)])
def test_it_is_bounded(gain: float, factor: float) -> None:
    rate, _, outputs = two_groups(gain, 1e-5)
    for _ in range(200):
        rate.steer(outputs)
    assert rate.lr == pytest.approx(factor * 1e-3)


def test_rounding_and_faults_move_nothing() -> None:
    rate, _, _ = two_groups(1.0, 1e-5)
    for broken in (torch.zeros(4, 1), torch.full((4, 1), torch.nan)):
        rate.steer(lambda broken=broken: broken.double())  # type: ignore[misc]
    assert rate.lr == 1e-5
    assert rate.metrics("policy") == {"lr_context_encoder/policy": 1e-5}


def test_steps_are_those_of_the_optimiser() -> None:
    _, optimizer, _ = two_groups(1.0, 1e-5)
    generator = torch.Generator().manual_seed(1)
    blocks = [group["params"][0] for group in optimizer.param_groups]
    for _ in range(5):
        for block in blocks:
            block.grad.copy_(torch.randn(block.shape, generator=generator))
        before = [block.detach().clone() for block in blocks]
        optimizer.step()
        steps = adam_steps(optimizer)
        for group, block, old in zip(optimizer.param_groups, blocks, before, strict=True):
            torch.testing.assert_close(
                old - group["lr"] * steps[group["name"]], block.detach(), atol=1e-8, rtol=1e-5
            )


def test_a_steered_rate_is_not_scaled(make_trainer: Any) -> None:
    learner = automatic(make_trainer).learner
    before = {name: rate.lr for name, rate in learner.auto_rates.items()}
    learner.scale_rates(0.5)
    for name, lr in before.items():
        encoder, other = learner.optimizers[name].param_groups
        assert encoder["lr"] == lr and other["lr"] == 0.5 * learner.groups[name][1].lr


def automatic(make_trainer: Any, **settings: Any) -> Trainer:
    trainer: Trainer = make_trainer({}, lr_context_encoder="auto", **settings)
    return trainer


def test_training_measures_and_changes_only_the_rate(make_trainer: Any) -> None:
    trainer = automatic(make_trainer)
    trainer.train(40)
    learner = trainer.learner
    learner.updates += -learner.updates % MEASURE_EVERY
    weights = {name: tensor.clone() for name, tensor in learner.weights().items()}
    before = {name: rate.lr for name, rate in learner.auto_rates.items()}
    metrics = learner.steer_rates(trainer.sample())
    assert set(before) == {"policy", "critic"}
    for name, lr in before.items():
        assert learner.auto_rates[name].lr != lr
        assert learner.optimizers[name].param_groups[0]["lr"] == learner.auto_rates[name].lr
        assert metrics[f"lr_context_encoder/{name}"] == learner.auto_rates[name].lr
    assert all(torch.equal(weights[name], t) for name, t in learner.weights().items())
    learner.updates += 1
    kept = {name: rate.lr for name, rate in learner.auto_rates.items()}
    learner.steer_rates(trainer.sample())
    assert kept == {name: rate.lr for name, rate in learner.auto_rates.items()}, "not yet due"


def test_a_restored_learner_has_the_rates(make_trainer: Any) -> None:
    one, two = automatic(make_trainer), automatic(make_trainer)
    one.train(30 + 2 * MEASURE_EVERY)
    two.learner.restore(*one.learner.state())
    for name, rate in one.learner.auto_rates.items():
        assert rate.lr != automatic(make_trainer).learner.auto_rates[name].lr
        assert two.learner.auto_rates[name].lr == rate.lr
        assert two.learner.optimizers[name].param_groups[0]["lr"] == rate.lr
        # The log goes on as well, between two measurements.
        metrics = rate.metrics(name)
        assert len(metrics) == 3 and two.learner.auto_rates[name].metrics(name) == metrics


def test_a_checkpoint_from_before_variations_were_kept_still_goes_on() -> None:
    rate, _, outputs = two_groups(1.0, 1e-5)
    rate.steer(outputs)
    rate.restore({"lr": 1e-4})
    assert rate.metrics("policy") == {"lr_context_encoder/policy": 1e-4}


def test_without_a_memory_it_is_refused(make_trainer: Any) -> None:
    with pytest.raises(ConfigError, match="encoder mlp has none"):
        automatic(make_trainer, encoder="mlp")


@pytest.mark.parametrize("rate", ["fast", 0.0, -1.0, float("nan")])
def test_other_words_are_refused(rate: Any, make_trainer: Any) -> None:
    with pytest.raises(ConfigError, match="lr_context_encoder"):
        make_trainer({}, lr_context_encoder=rate)
