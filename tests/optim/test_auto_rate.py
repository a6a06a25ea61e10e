"""The automatic rate of the context encoder arrives where both steps move the output alike."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from doc_pages import DOCS
from method_cases import small_config

from resel.errors import ConfigError, DamagedFileError
from resel.methods import build_learner, own_methods
from resel.networks import Dimensions
from resel.optim import MEASURE_EVERY
from resel.optim.auto_rate import AutoRate, Steered
from resel.optim.groups import ParameterGroup, adam_steps, build_optimizer
from resel.training import Trainer

Outputs = dict[str, Callable[[], torch.Tensor]]


def two_groups(gain: float, lr: float = 1e-3) -> tuple[Steered, Callable[[], torch.Tensor]]:
    """An encoder whose step moves the output `gain` times as far as one of the other layer."""
    encoder, other = torch.zeros(3).requires_grad_(), torch.zeros(3).requires_grad_()
    groups = [ParameterGroup("context_encoder", {"a": encoder}, lr)]
    groups += [ParameterGroup("other", {"b": other}, lr)]
    optimizer = build_optimizer(groups)
    for group in groups:
        assert group.block.grad is not None
        group.block.grad.fill_(1.0)
    optimizer.step()
    return Steered(*groups, optimizer), lambda: (gain * encoder + other)[:, None].double()


def steered(start: float | None, **gains: float) -> tuple[AutoRate, Outputs]:
    made = {name: two_groups(gain) for name, gain in gains.items()}
    networks = {name: network for name, (network, _) in made.items()}
    return AutoRate(networks, start), {name: output for name, (_, output) in made.items()}


@pytest.mark.parametrize("start", [1e-7, 1e-5, 1e-3])
def test_it_arrives_at_the_same_rate_from_anywhere(start: float) -> None:
    rate, outputs = steered(start, policy=100.0)
    for _ in range(60):
        rate.steer(outputs)
    assert rate.lr == pytest.approx(1e-5, rel=1e-3)
    metrics = rate.metrics()
    assert metrics["lr_context_encoder"] == rate.lr
    assert metrics["variation/policy/context_encoder"] == pytest.approx(1e-3, rel=0.01)
    assert metrics["variation/policy/other"] == pytest.approx(1e-3, rel=0.01)


@pytest.mark.parametrize("start", [1e-7, None, 1e-3])
def test_what_networks_ask_for_counts_alike(start: float | None) -> None:
    rate, outputs = steered(start, policy=40.0, critic=2.5)
    for _ in range(60):
        rate.steer(outputs)
    assert rate.lr == pytest.approx(1e-4, rel=1e-3)  # of 1e-3 / 40 and 1e-3 / 2.5
    assert len(rate.metrics()) == 5


def test_it_starts_by_the_rates_of_the_other_layers() -> None:
    networks = {"policy": two_groups(1.0, 1e-3)[0], "critic": two_groups(1.0, 4e-3)[0]}
    rate = AutoRate(networks, None)
    assert rate.lr == pytest.approx(0.03 * 2e-3)
    for network in networks.values():
        assert network.optimizer.param_groups[0]["lr"] == rate.lr
    assert AutoRate(networks, 1.0).lr == 1e-3, "no higher than the smallest of them"


@pytest.mark.parametrize(("gain", "factor"), [(1e-3, 1.0), (1e5, 1e-4)])
def test_it_is_bounded(gain: float, factor: float) -> None:
    rate, outputs = steered(1e-5, policy=gain)
    for _ in range(200):
        rate.steer(outputs)
    assert rate.lr == pytest.approx(factor * 1e-3)


def test_rounding_and_faults_move_nothing() -> None:
    rate, outputs = steered(1e-5, policy=1.0, critic=10.0)
    for broken in (torch.zeros(4, 1), torch.full((4, 1), torch.nan)):
        rate.steer(dict.fromkeys(outputs, lambda broken=broken: broken.double()))  # type: ignore[misc]
    assert rate.lr == 1e-5
    assert rate.metrics() == {"lr_context_encoder": 1e-5}
    rate.steer({**outputs, "policy": lambda: torch.full((3, 1), torch.nan)})
    assert 0 < math.log(rate.lr / 1e-5) <= 0.1 * math.log(8) + 1e-9, "half of a vote"
    assert "variation/policy/other" not in rate.metrics()


def test_networks_that_have_not_learned_are_not_measured() -> None:
    network, output = two_groups(1.0)
    network.optimizer.state.clear()
    rate = AutoRate({"policy": network}, 1e-5)
    rate.steer({"policy": output})
    assert rate.metrics() == {"lr_context_encoder": 1e-5}


def test_steps_are_those_of_the_optimiser() -> None:
    optimizer = two_groups(1.0)[0].optimizer
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
    trainer = automatic(make_trainer)
    learner = trainer.learner
    lr = learner.auto_rate.lr
    learner.scale_rates(0.5)
    for name in ("policy", "critic"):
        encoder, other = learner.optimizers[name].param_groups
        assert encoder["lr"] == lr and other["lr"] == 0.5 * learner.groups[name][1].lr
        assert learner.steers(name, "context_encoder") and not learner.steers(name, "other")
    learner.scale_rates(1e-6)
    trainer.train(40)
    learner.updates += -learner.updates % MEASURE_EVERY
    learner.scale_rates(1e-6)
    learner.steer_rate(trainer.sample())
    lowest = min(learner.groups[name][1].lr for name in ("policy", "critic"))
    assert learner.auto_rate.lr == pytest.approx(1e-6 * lowest), "no higher than the others"


def automatic(make_trainer: Any, **settings: Any) -> Any:
    trainer: Trainer = make_trainer({}, lr_context_encoder="auto", **settings)
    return trainer


def test_training_measures_and_changes_only_the_rate(make_trainer: Any) -> None:
    trainer = automatic(make_trainer)
    trainer.train(40)
    learner = trainer.learner
    learner.updates += -learner.updates % MEASURE_EVERY
    weights = {name: tensor.clone() for name, tensor in learner.weights().items()}
    before = learner.auto_rate.lr
    metrics = learner.steer_rate(trainer.sample())
    assert learner.auto_rate.lr != before
    for name in ("policy", "critic"):
        assert learner.optimizers[name].param_groups[0]["lr"] == learner.auto_rate.lr
        assert metrics[f"variation/{name}/other"] > 0
    assert metrics["lr_context_encoder"] == learner.auto_rate.lr
    assert all(torch.equal(weights[name], t) for name, t in learner.weights().items())
    learner.updates += 1
    kept = learner.auto_rate.lr
    learner.steer_rate(trainer.sample())
    assert learner.auto_rate.lr == kept, "not yet due"


def test_a_restored_learner_has_the_rate(make_trainer: Any) -> None:
    one, two = automatic(make_trainer), automatic(make_trainer)
    one.train(30 + 2 * MEASURE_EVERY)
    two.learner.restore(*one.learner.state())
    rate = one.learner.auto_rate
    assert rate.lr != automatic(make_trainer).learner.auto_rate.lr
    for name in ("policy", "critic"):
        assert two.learner.optimizers[name].param_groups[0]["lr"] == rate.lr
    # The log goes on as well, between two measurements.
    assert len(rate.metrics()) == 5 and two.learner.auto_rate.metrics() == rate.metrics()


def test_a_checkpoint_in_which_each_network_has_a_rate_still_goes_on(make_trainer: Any) -> None:
    one, two = automatic(make_trainer), automatic(make_trainer)
    one.train(30 + 2 * MEASURE_EVERY)
    tensors, document = one.learner.state()
    del document["auto_rate"]
    document["auto_rates"] = {"policy": {"lr": 1e-5}, "critic": {"lr": 4e-5, "variations": {}}}
    two.learner.restore(tensors, document)
    assert two.learner.auto_rate.metrics() == {"lr_context_encoder": pytest.approx(2e-5)}
    document["auto_rates"] = {"policy": {"lr": 1.0}, "critic": {"lr": 1.0}}
    two.learner.restore(tensors, document)
    highest = min(two.learner.groups[name][1].lr for name in ("policy", "critic"))
    assert two.learner.auto_rate.lr == highest
    for torn in (3, [], {"policy": {}}, {"lr": 0.0}):
        with pytest.raises(DamagedFileError):
            two.learner.restore(tensors, {**document, "auto_rates": torn})


def test_without_a_memory_it_is_refused(make_trainer: Any) -> None:
    with pytest.raises(ConfigError, match="encoder mlp has none"):
        automatic(make_trainer, encoder="mlp")


@pytest.mark.parametrize("rate", ["fast", 0.0, -1.0, float("nan")])
def test_other_words_are_refused(rate: Any, make_trainer: Any) -> None:
    with pytest.raises(ConfigError, match="lr_context_encoder"):
        make_trainer({}, lr_context_encoder=rate)


def test_the_methods_that_can_have_it_are_those_of_the_page() -> None:
    able = []
    for method in own_methods():
        if not hasattr(method.settings, "lr_context_encoder"):
            continue
        config = small_config(method, lr_context_encoder="auto")
        try:
            learner = build_learner(config, Dimensions(3, 1, discrete=False), torch.device("cpu"))
        except ConfigError:
            continue
        assert learner.auto_rate is not None
        able.append(method.name)
    text = (DOCS / "automatic.md").read_text(encoding="utf-8")
    sentence = text[text.index("say: `resel`") : text.index(". It is refused by")]
    assert sorted(able) == sorted(re.findall(r"`([a-z0-9-]+)`", sentence))
