"""Two parameter groups for each network, and an optimiser without decay."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from resel.config import Config
from resel.networks import ContextCritic, ContextPolicy, Dimensions, encoders
from resel.optim import ParameterGroup, parameter_groups
from resel.optim.groups import build_optimizer, gradients

DIMENSIONS = {
    "box": Dimensions(3, 2, discrete=False),
    "discrete": Dimensions(3, 4, discrete=True),
}

every_encoder = pytest.mark.parametrize("encoder", [spec.name for spec in encoders()[0]])


def build(kind: type[Any], encoder: str, dims: str = "box") -> Any:
    torch.manual_seed(0)
    small: dict[str, Any] = {
        "encoder": encoder,
        "width": 8,
        "embedding": 4,
        "head_width": 8,
        "state_size": 2,
        "n_layers": 2,
        "reward_input": True,
    }
    config = Config.build("", small)
    heads = (3,) if kind is ContextCritic else ()
    return kind(DIMENSIONS[dims], config, *heads)


@pytest.mark.parametrize("kind", [ContextPolicy, ContextCritic])
@every_encoder
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


@pytest.mark.parametrize("kind", [ContextPolicy, ContextCritic])
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
        *(network.head if kind is ContextPolicy else network.heads).parameters(),
    ]
    if kind is ContextCritic:
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
    groups = parameter_groups(build(ContextPolicy, "gru"), 1e-5, 3e-4, "encoder")
    optimizer = build_optimizer(groups)
    assert isinstance(optimizer, torch.optim.AdamW)
    assert [(g["name"], g["lr"]) for g in optimizer.param_groups] == [
        ("context_encoder", 1e-5),
        ("other", 3e-4),
    ]
    for group in optimizer.param_groups:
        assert (group["weight_decay"], group["betas"], group["eps"]) == (0.0, (0.9, 0.999), 1e-8)
    for theirs, ours in zip(optimizer.param_groups, groups, strict=True):
        assert [id(p) for p in theirs["params"]] == [id(ours.block)]


def test_weights_without_gradient_do_not_decay() -> None:
    network = build(ContextCritic, "mamba")
    optimizer = build_optimizer(parameter_groups(network, 1e-2, 1e-2, "encoder"))
    before = [p.detach().clone() for p in network.parameters()]
    for parameter in network.parameters():
        assert parameter.grad is not None
        assert not parameter.grad.any()
    for _ in range(3):
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))


def test_the_first_step_is_as_large_as_the_rate() -> None:
    network = build(ContextPolicy, "mamba")
    groups = parameter_groups(network, 1e-4, 1e-2, "rnn")
    optimizer = build_optimizer(groups)
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    for parameter in network.parameters():
        parameter.grad.fill_(1)
    optimizer.step()
    for group in groups:
        for name, parameter in group.parameters.items():
            moved = before[name] - parameter.detach()
            torch.testing.assert_close(
                moved, torch.full_like(moved, group.lr), rtol=2e-2, atol=1e-7
            )


@pytest.mark.parametrize("kind", [ContextPolicy, ContextCritic])
@every_encoder
def test_a_group_holds_its_parameters_and_their_gradients(kind: type[Any], encoder: str) -> None:
    network = build(kind, encoder)
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    groups = parameter_groups(network, 1e-5, 3e-4, "encoder")
    assert all(torch.equal(p, before[name]) for name, p in network.named_parameters())
    for value, (group, row) in enumerate(zip(groups, gradients(groups), strict=True), 1):
        with torch.no_grad():
            group.block.fill_(value)
        row.fill_(-value)
        for parameter in group.parameters.values():
            assert parameter.data_ptr() % 64 == group.block.data_ptr() % 64
            assert (parameter == value).all()
            assert (parameter.grad == -value).all()
        room = group.block.numel()
        assert group.count <= room < group.count + 16 * len(group.parameters)


@pytest.mark.parametrize("encoder", ["mamba", "gru"])
def test_steps_of_a_group_are_those_of_its_parameters_one_by_one(encoder: str) -> None:
    """Against torch's plain AdamW over separate tensors, gradients by backward."""
    ours, plain = build(ContextCritic, encoder), build(ContextCritic, encoder)
    optimizers = [
        build_optimizer(groups := parameter_groups(ours, 1e-3, 1e-2, "encoder")),
        torch.optim.AdamW(
            [
                {"params": [p for n, p in plain.named_parameters() if n in g.parameters], "lr": lr}
                for g, lr in zip(groups, (1e-3, 1e-2), strict=True)
            ],
            weight_decay=0.0,
            fused=False,
            foreach=False,
        ),
    ]
    for step in range(4):
        for network, optimizer in zip((ours, plain), optimizers, strict=True):
            optimizer.zero_grad(set_to_none=network is plain)
            loss = sum((p.square() * (step + 1)).sin().sum() for p in network.parameters())
            loss.backward()
            optimizer.step()
    for (name, p), (_, q) in zip(ours.named_parameters(), plain.named_parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6, msg=name)


def test_parameters_that_do_not_learn_take_no_gradient() -> None:
    weight = torch.arange(6.0).view(2, 3)
    group = ParameterGroup("other", {"weight": weight}, 0.0)
    assert group.block.grad is None
    assert group.block[:6].tolist() == list(range(6))
    group.block.neg_()
    assert weight.tolist() == [[0, -1, -2], [-3, -4, -5]]
