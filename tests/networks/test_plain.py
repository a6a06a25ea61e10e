"""Networks without a memory: sizes, first weights, distributions, what they read."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from resel.config import Config
from resel.errors import ConfigError
from resel.networks import (
    Categorical,
    ContextInputs,
    Deterministic,
    Dimensions,
    PlainCritic,
    PlainNetwork,
    PlainPolicy,
    SquashedGaussian,
)

BOX = Dimensions(3, 2, discrete=False)
DISCRETE = Dimensions(3, 4, discrete=True)


def inputs(*shape: int) -> ContextInputs:
    draw = torch.Generator().manual_seed(0)
    return ContextInputs(*(torch.randn(*shape, n, generator=draw) for n in (3, 3, 2, 1)))


def firsts(*shape: int) -> Tensor:
    return torch.ones(shape, dtype=torch.bool)


def policy_of(dims: Dimensions, *, noise: float | None = None, **sizes: Any) -> PlainPolicy:
    torch.manual_seed(0)
    return PlainPolicy(dims, PlainNetwork(**sizes), noise)


def critic_of(dims: Dimensions, outputs: int = 1, **sizes: Any) -> PlainCritic:
    torch.manual_seed(0)
    return PlainCritic(dims, PlainNetwork(**sizes), 3, outputs)


@pytest.mark.parametrize(
    ("sizes", "policy", "critic"),
    [
        ({}, [256, 256], [256, 256]),
        ({"head_width": 128, "last_width": 64}, [128, 64], [128, 64]),
        ({"critic_width": 512, "critic_layers": 3}, [256, 256], [512] * 3),
        ({"head_width": 9, "critic_layers": 1}, [9, 9], [9]),
        ({"last_width": 7, "critic_width": 8}, [256, 7], [8, 8]),
    ],
)
def test_widths(sizes: dict[str, int], policy: list[int], critic: list[int]) -> None:
    network = PlainNetwork(**sizes)
    assert network.policy_widths == policy and network.critic_widths == critic
    layers = [p.shape[0] for p in policy_of(BOX, **sizes).parameters() if p.dim() == 2]
    assert layers == [*policy, 2 * BOX.action]
    weights = critic_of(BOX, **sizes).heads.weights
    assert [w.shape[:2] for w in weights] == [(3, n) for n in (*critic, 1)]


def test_only_the_observation_is_read() -> None:
    seen = inputs(4, 5)
    other = ContextInputs(seen.observation, *(x + 1 for x in seen[1:]))
    for noise in (None, 0.1):
        policy = policy_of(BOX, noise=noise)
        assert torch.equal(policy(seen, firsts(4, 5)).mode(), policy(other, firsts(4, 5)).mode())
    critic = critic_of(BOX)
    assert critic.embed(seen, firsts(4, 5)) is seen.observation


def test_a_step_is_the_sequence_at_that_moment() -> None:
    policy, seen = policy_of(BOX), inputs(4, 5)
    whole = policy(seen, firsts(4, 5))
    assert policy.initial_state(4) == ()
    for t in range(5):
        now, state = policy.step(ContextInputs(*(x[:, t] for x in seen)), ())
        assert state == ()
        torch.testing.assert_close(now.mean, whole.mean[:, t])


def test_kinds_of_policies() -> None:
    seen = inputs(4, 5)
    assert isinstance(policy_of(DISCRETE)(seen, firsts(4, 5)), Categorical)
    found = policy_of(BOX, noise=0.3)(seen, firsts(4, 5))
    assert isinstance(found, Deterministic)
    assert found.noise == 0.3 and found.action.shape == (4, 5, 2)
    floor = policy_of(BOX, log_std_min=1.5)(seen, firsts(4, 5))
    assert isinstance(floor, SquashedGaussian)
    assert torch.all(floor.log_std == 1.5)


@pytest.mark.parametrize(
    ("dims", "outputs", "shape"), [(BOX, 1, ()), (BOX, 6, (6,)), (DISCRETE, 1, (4,))]
)
def test_values_of_heads(dims: Dimensions, outputs: int, shape: tuple[int, ...]) -> None:
    critic, seen = critic_of(dims, outputs), inputs(4, 5)
    action = None if dims.discrete else seen.last_action.clone().requires_grad_()
    q = critic.values(seen.observation, action)
    assert q.shape == (3, 4, 5, *shape)
    chosen = critic.values(seen.observation, action, torch.tensor([2]))
    torch.testing.assert_close(chosen[0], q[2])
    if action is not None:
        critic.values(seen.observation, action, frozen=True).sum().backward()
        assert action.grad is not None and action.grad.abs().sum() > 0
    assert all(p.grad is None for p in critic.parameters())


def test_first_weights() -> None:
    kinds = {"torch": {}, "fan_out": {"initialisation": "fan_out"}}
    for name, how in kinds.items():
        last = policy_of(BOX, head_width=100, **how).head[-1]
        heads = critic_of(BOX, head_width=100, **how).heads
        first_bound = 1 / math.sqrt(5 if name == "torch" else 100)
        for tensor, bound in (
            (heads.weights[0], first_bound),
            (heads.weights[1], 0.1),
            (heads.weights[2], 0.1 if name == "torch" else 3e-3),
            (last.weight, 0.1 if name == "torch" else 1e-3),
        ):
            assert 0.9 * bound < tensor.detach().abs().max() <= bound
        if name == "fan_out":
            assert torch.all(heads.biases[0] == 0.1) and torch.all(heads.biases[1] == 0.1)
        assert not torch.equal(heads.weights[1][0], heads.weights[1][1])


def test_deterministic_actions_explore_within_their_bounds() -> None:
    action = torch.tensor([[0.0, 0.95]]).expand(4000, 2)
    policy = Deterministic(action, 0.1)
    found = policy.choose(torch.Generator().manual_seed(0))
    assert found[:, 0].std().item() == pytest.approx(0.1, rel=0.05)
    assert found[:, 0].mean().item() == pytest.approx(0.0, abs=0.01)
    assert found[:, 1].max() == 1.0
    assert torch.equal(policy.mode(), action)
    smooth = policy.smoothed(0.2, 0.05, torch.Generator().manual_seed(0))
    assert smooth[:, 0].abs().max().item() == pytest.approx(0.05)
    assert not policy.broken() and Deterministic(action * math.nan, 0.1).broken()
    assert not Deterministic(action.clone().requires_grad_(), 0.1).detach().action.requires_grad


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"activation": "gelu"}, "relu, leaky_relu"),
        ({"initialisation": "xavier"}, "torch, fan_out"),
        ({"head_layers": 0}, "head_layers=0"),
        ({"log_std_min": 3.0}, "log_std_min"),
    ],
)
def test_settings_that_cannot_work(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config.build("", {"method": "sac"}, changes)
