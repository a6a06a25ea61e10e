"""Two parameter groups for each network, and an optimiser without decay."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from resel.algorithm import ParameterGroup, parameter_groups
from resel.algorithm.optim import build_optimizer, gradient_norms
from resel.config import NetworkConfig
from resel.networks import Critic, Dimensions, Policy

DIMENSIONS = {
    "box": Dimensions(3, 2, discrete=False),
    "discrete": Dimensions(3, 4, discrete=True),
}


def build(kind: type[Any], encoder: str, dims: str = "box") -> Any:
    torch.manual_seed(0)
    config = NetworkConfig(
        encoder=encoder,  # type: ignore[arg-type]
        width=8,
        embedding=4,
        head_width=8,
        state_size=2,
        critics=3,
        blocks=2,
        reward_input=True,
    )
    return kind(DIMENSIONS[dims], config)


@pytest.mark.parametrize("kind", [Policy, Critic])
@pytest.mark.parametrize("encoder", ["mamba", "gru", "lstm", "mlp"])
@pytest.mark.parametrize("dims", DIMENSIONS)
@pytest.mark.parametrize(
    ("scope", "prefix"),
    [("encoder", "trunk.context_encoder."), ("rnn", "trunk.context_encoder.rnn.")],
)
def test_groups_are_a_partition(
    kind: type[Any], encoder: str, dims: str, scope: Any, prefix: str
) -> None:
    network = build(kind, encoder, dims)
    encoder_group, other = parameter_groups(network, 1e-5, 3e-4, scope)
    assert (encoder_group.name, encoder_group.lr) == ("context_encoder", 1e-5)
    assert (other.name, other.lr) == ("other", 3e-4)
    named = dict(network.named_parameters())
    assert encoder_group.parameters.keys() == {name for name in named if name.startswith(prefix)}
    assert other.parameters.keys() == named.keys() - encoder_group.parameters.keys()
    assert encoder_group.parameters and other.parameters
    for group in (encoder_group, other):
        assert all(named[name] is parameter for name, parameter in group.parameters.items())
    assert encoder_group.count + other.count == sum(p.numel() for p in named.values())


@pytest.mark.parametrize("kind", [Policy, Critic])
@pytest.mark.parametrize("scope", ["encoder", "rnn"])
def test_pre_encoders_and_heads_learn_at_the_other_rate(kind: type[Any], scope: Any) -> None:
    network = build(kind, "mamba")
    _, other = parameter_groups(network, 1e-5, 3e-4, scope)
    trunk = network.trunk
    outside = [
        *trunk.observation.parameters(),
        *trunk.last_observation.parameters(),
        *trunk.last_action.parameters(),
        *trunk.last_reward.parameters(),
        *network.observation.parameters(),
        *(network.head if kind is Policy else network.heads).parameters(),
    ]
    if kind is Critic:
        outside += network.action.parameters()
    ids = {id(p) for p in other.parameters.values()}
    assert all(id(p) in ids for p in outside)
    if scope == "encoder":
        assert len(ids) == len(outside)
    else:
        around = [*trunk.context_encoder.before.parameters()]
        around += trunk.context_encoder.after.parameters()
        assert ids == {id(p) for p in outside + around}


def test_the_optimiser_is_adam_with_two_rates() -> None:
    groups = parameter_groups(build(Policy, "gru"), 1e-5, 3e-4, "encoder")
    optimizer = build_optimizer(groups)
    assert isinstance(optimizer, torch.optim.AdamW)
    assert [(g["name"], g["lr"]) for g in optimizer.param_groups] == [
        ("context_encoder", 1e-5),
        ("other", 3e-4),
    ]
    for group in optimizer.param_groups:
        assert (group["weight_decay"], group["betas"], group["eps"]) == (0.0, (0.9, 0.999), 1e-8)
    for theirs, ours in zip(optimizer.param_groups, groups, strict=True):
        assert [id(p) for p in theirs["params"]] == [id(p) for p in ours.parameters.values()]


def test_weights_without_gradient_do_not_decay() -> None:
    network = build(Critic, "mamba")
    optimizer = build_optimizer(parameter_groups(network, 1e-2, 1e-2, "encoder"))
    before = [p.detach().clone() for p in network.parameters()]
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for _ in range(3):
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))


def test_the_first_step_is_as_large_as_the_rate() -> None:
    network = build(Policy, "mamba")
    groups = parameter_groups(network, 1e-4, 1e-2, "rnn")
    optimizer = build_optimizer(groups)
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    for parameter in network.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    for group in groups:
        for name, parameter in group.parameters.items():
            moved = before[name] - parameter.detach()
            torch.testing.assert_close(
                moved, torch.full_like(moved, group.lr), rtol=2e-2, atol=1e-7
            )


def test_gradient_norms() -> None:
    parameters = {name: torch.nn.Parameter(torch.randn(3, 4)) for name in "abc"}
    for name in "ab":
        parameters[name].grad = torch.randn(3, 4)
    bias = torch.nn.Parameter(torch.zeros(2))
    bias.grad = torch.tensor([3.0, 4.0])
    groups = [
        ParameterGroup("context_encoder", parameters, 1e-3),
        ParameterGroup("other", {"bias": bias}, 1e-3),
        ParameterGroup("none", {}, 1e-3),
    ]
    flat = torch.cat([parameters[name].grad.flatten() for name in "ab"])
    norms = gradient_norms(groups)
    torch.testing.assert_close(norms["context_encoder"], flat.square().sum().sqrt())
    assert (norms["other"].item(), norms["none"].item()) == (5, 0)
    assert [group.count for group in groups] == [36, 2, 0]
