"""Policy and critic: who sees what, and packed equal to separate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from resel.config import Config
from resel.networks import (
    Categorical,
    ContextCritic,
    ContextInputs,
    ContextPolicy,
    Dimensions,
    PolicyDistribution,
    SquashedGaussian,
    encoders,
)

BOX = Dimensions(3, 2, discrete=False)
DISCRETE = Dimensions(3, 4, discrete=True)
LENGTHS = [4, 1, 7, 2]
ENCODERS = [spec.name for spec in encoders()[0]]


def small(**changes: Any) -> Config:
    base: dict[str, Any] = {
        "width": 6,
        "embedding": 5,
        "head_width": 7,
        "state_size": 2,
        "conv_kernel": 3,
        "n_heads": 2,
        "longest_episode": 20,
        "smoothing_width": 2,
    }
    return Config.build("", base, changes)


def build(kind: type[Any], dims: Dimensions, config: Config) -> Any:
    torch.manual_seed(0)
    heads = (3,) if kind is ContextCritic else ()
    network = kind(dims, config, *heads).double().eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return network


def random_inputs(dims: Dimensions, rows: int, length: int, seed: int = 0) -> ContextInputs:
    rng = torch.Generator().manual_seed(seed)
    sizes = (dims.observation, dims.observation, dims.action, 1)
    return ContextInputs(
        *(torch.randn(rows, length, n, generator=rng, dtype=torch.float64) for n in sizes)
    )


def flags(lengths: list[int]) -> Tensor:
    is_first = torch.zeros(1, sum(lengths), dtype=torch.bool)
    at = 0
    for length in lengths:
        is_first[0, at] = True
        at += length
    return is_first


def cut(inputs: ContextInputs, begin: int, end: int) -> ContextInputs:
    return ContextInputs(*(part[:, begin:end] for part in inputs))


def stacked(distribution: PolicyDistribution) -> Tensor:
    if isinstance(distribution, Categorical):
        return distribution.log_probs
    return torch.cat([distribution.mean, distribution.log_std], -1)


def assert_packed_equals_separate(
    run: Callable[[ContextInputs, Tensor, Tensor], Tensor], network: nn.Module, dims: Dimensions
) -> None:
    """`run(inputs, start, actions)` gives (..., 1, length, n) outputs."""
    inputs = random_inputs(dims, 1, sum(LENGTHS))
    actions = random_inputs(dims, 1, sum(LENGTHS), seed=1).last_action.requires_grad_()
    leaves = [part.requires_grad_() for part in inputs] + [actions, *network.parameters()]
    packed = run(inputs, flags(LENGTHS), actions)
    parts, at = [], 0
    for length in LENGTHS:
        one = torch.zeros(1, length, dtype=torch.bool)
        one[0, 0] = True
        parts.append(run(cut(inputs, at, at + length), one, actions[:, at : at + length]))
        at += length
    separate = torch.cat(parts, -2)
    torch.testing.assert_close(packed, separate, rtol=1e-10, atol=1e-11)
    rng = torch.Generator().manual_seed(2)
    weighting = torch.randn(packed.shape, generator=rng, dtype=torch.float64)
    found = torch.autograd.grad((weighting * packed).sum(), leaves, allow_unused=True)
    wanted = torch.autograd.grad((weighting * separate).sum(), leaves, allow_unused=True)
    assert sum(grad is not None for grad in found) >= 4
    for ours, theirs in zip(found, wanted, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("dims", [BOX, DISCRETE], ids=["box", "discrete"])
def test_policy_packed_equals_separate(encoder: str, dims: Dimensions) -> None:
    policy = build(ContextPolicy, dims, small(encoder=encoder, reward_input=True))
    assert_packed_equals_separate(
        lambda inputs, is_first, _: stacked(policy(inputs, is_first)), policy, dims
    )


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("dims", [BOX, DISCRETE], ids=["box", "discrete"])
def test_critic_packed_equals_separate(encoder: str, dims: Dimensions) -> None:
    critic = build(ContextCritic, dims, small(encoder=encoder, reward_input=True))

    def run(inputs: ContextInputs, is_first: Tensor, actions: Tensor) -> Tensor:
        q = critic.values(critic.embed(inputs, is_first), None if dims.discrete else actions)
        return q if dims.discrete else q[..., None]

    assert_packed_equals_separate(run, critic, dims)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("dims", [BOX, DISCRETE], ids=["box", "discrete"])
def test_steps_equal_forward(encoder: str, dims: Dimensions) -> None:
    policy = build(ContextPolicy, dims, small(encoder=encoder, reward_input=True, n_layers=2))
    inputs = random_inputs(dims, 3, 6)
    whole = stacked(policy(inputs, torch.zeros(3, 6, dtype=torch.bool)))
    state = policy.initial_state(3)
    for t in range(6):
        distribution, state = policy.step(ContextInputs(*(x[:, t] for x in inputs)), state)
        torch.testing.assert_close(stacked(distribution), whole[:, t], rtol=1e-10, atol=1e-11)


def test_the_kind_of_distribution_follows_the_actions() -> None:
    is_first = torch.zeros(2, 5, dtype=torch.bool)
    box = build(ContextPolicy, BOX, small())(random_inputs(BOX, 2, 5), is_first)
    assert isinstance(box, SquashedGaussian)
    assert box.mean.shape == box.log_std.shape == (2, 5, 2)
    discrete = build(ContextPolicy, DISCRETE, small())(random_inputs(DISCRETE, 2, 5), is_first)
    assert isinstance(discrete, Categorical) and discrete.log_probs.shape == (2, 5, 4)


def plain_context(network: Any, inputs: ContextInputs, is_first: Tensor) -> Tensor:
    trunk = network.trunk
    kinds = [(trunk.observation, inputs.observation)]
    kinds += [(trunk.last_observation, inputs.last_observation)]
    kinds += [(trunk.last_action, inputs.last_action)]
    if trunk.last_reward is not None:
        kinds += [(trunk.last_reward, inputs.last_reward)]
    x = torch.cat([F.linear(value, layer.weight, layer.bias) for layer, value in kinds], -1)
    encoder = trunk.context_encoder
    for layer in (m for m in encoder.before.modules() if isinstance(m, nn.Linear)):
        x = F.elu(F.linear(x, layer.weight, layer.bias))
    x = F.elu(encoder.rnn(x, is_first))
    return F.linear(x, encoder.after.weight, encoder.after.bias)


@pytest.mark.parametrize("reward_input", [False, True])
@pytest.mark.parametrize("input_layers", [1, 3])
def test_policy_is_what_the_paper_draws(reward_input: bool, input_layers: int) -> None:
    policy = build(ContextPolicy, BOX, small(reward_input=reward_input, input_layers=input_layers))
    inputs, is_first = random_inputs(BOX, 2, 6), torch.zeros(2, 6, dtype=torch.bool)
    x = torch.cat(
        [policy.observation(inputs.observation), plain_context(policy, inputs, is_first)], -1
    )
    *hidden, last = [m for m in policy.head.modules() if isinstance(m, nn.Linear)]
    assert len(hidden) == 2
    for layer in hidden:
        x = F.elu(F.linear(x, layer.weight, layer.bias))
    log_std, mean = F.linear(x, last.weight, last.bias).chunk(2, -1)
    found = policy(inputs, is_first)
    torch.testing.assert_close(found.mean, mean)
    torch.testing.assert_close(found.log_std, log_std.clamp(-20, 2))


@pytest.mark.parametrize("dims", [BOX, DISCRETE], ids=["box", "discrete"])
def test_critic_is_what_the_paper_draws(dims: Dimensions) -> None:
    critic = build(ContextCritic, dims, small(reward_input=True))
    inputs, is_first = random_inputs(dims, 2, 6), torch.zeros(2, 6, dtype=torch.bool)
    action = random_inputs(dims, 2, 6, seed=1).last_action
    parts = [critic.observation(inputs.observation), plain_context(critic, inputs, is_first)]
    if not dims.discrete:
        parts.insert(1, critic.action(action))
    values = []
    for head in range(3):
        x = torch.cat(parts, -1)
        layers = list(zip(critic.heads.weights, critic.heads.biases, strict=True))
        for weight, bias in layers[:-1]:
            x = F.elu(x @ weight[head].t() + bias[head])
        values.append(x @ layers[-1][0][head].t() + layers[-1][1][head])
    expected = torch.stack(values)
    embedded = critic.embed(inputs, is_first)
    q = critic.values(embedded, None if dims.discrete else action)
    assert q.shape == ((3, 2, 6, 4) if dims.discrete else (3, 2, 6))
    torch.testing.assert_close(q, expected if dims.discrete else expected[..., 0])
    some = critic.values(embedded, None if dims.discrete else action, torch.tensor([2, 0]))
    torch.testing.assert_close(some, q[[2, 0]])


@pytest.mark.parametrize("kind", [ContextPolicy, ContextCritic])
def test_the_observation_enters_by_two_separate_layers(kind: type[Any]) -> None:
    """Either way alone still carries it, and no weight serves both."""
    network = build(kind, BOX, small())
    inputs, is_first = random_inputs(BOX, 1, 4), torch.zeros(1, 4, dtype=torch.bool)
    action = inputs.last_action

    def out(observation: Tensor) -> Tensor:
        changed = inputs._replace(observation=observation)
        if kind is ContextPolicy:
            return stacked(network(changed, is_first))
        return network.values(network.embed(changed, is_first), action)

    assert network.observation.weight.data_ptr() != network.trunk.observation.weight.data_ptr()
    ways = (network.observation, network.trunk.observation)
    for layer, other in (ways, ways[::-1]):
        saved = layer.weight.detach().clone()
        with torch.no_grad():
            layer.weight.zero_()
        observation = inputs.observation.clone().requires_grad_()
        grads = torch.autograd.grad(out(observation).sum(), [observation, other.weight])
        assert all(grad.abs().max() > 0 for grad in grads)
        with torch.no_grad():
            layer.weight.copy_(saved)


def test_the_action_enters_only_the_heads() -> None:
    critic = build(ContextCritic, BOX, small())
    inputs, is_first = random_inputs(BOX, 1, 6), torch.zeros(1, 6, dtype=torch.bool)
    embedded = critic.embed(inputs, is_first)
    action = torch.randn(1, 6, 2, dtype=torch.float64, requires_grad=True)
    q = critic.values(embedded, action)  # (E, 1, 6)
    for t in range(6):
        for head in range(3):
            (grad,) = torch.autograd.grad(q[head, 0, t], action, retain_graph=True)
            assert grad[0, t].abs().min() > 0
            assert torch.all(grad[0, torch.arange(6) != t] == 0)  # a_t says nothing later on
    other = critic.values(embedded, action.detach() + 1)
    assert torch.all((other - q).abs() > 0)


def test_frozen_values_pass_the_gradient_of_the_action_and_no_other() -> None:
    critic = build(ContextCritic, BOX, small())
    inputs, is_first = random_inputs(BOX, 1, 6), torch.zeros(1, 6, dtype=torch.bool)
    with torch.no_grad():
        embedded = critic.embed(inputs, is_first)
    action = torch.randn(1, 6, 2, dtype=torch.float64, requires_grad=True)
    free = critic.values(critic.embed(inputs, is_first), action)
    (expected,) = torch.autograd.grad(free.sum(), action)
    frozen = critic.values(embedded, action, frozen=True)
    torch.testing.assert_close(frozen, free)
    frozen.sum().backward()
    torch.testing.assert_close(action.grad, expected)
    assert all(parameter.grad is None for parameter in critic.parameters())


@pytest.mark.parametrize("kind", [ContextPolicy, ContextCritic])
@pytest.mark.parametrize("wanted", [False, True])
def test_the_reward_is_read_only_when_asked_for(kind: type[Any], wanted: bool) -> None:
    network = build(kind, BOX, small(reward_input=wanted))
    inputs, is_first = random_inputs(BOX, 1, 5), torch.zeros(1, 5, dtype=torch.bool)
    inputs.last_reward.requires_grad_()
    context = network.trunk(inputs, is_first)
    (grad,) = torch.autograd.grad(context.sum(), inputs.last_reward, allow_unused=True)
    assert (grad is not None and bool(grad.abs().min() > 0)) == wanted
    assert (network.trunk.last_reward is not None) == wanted
    first = next(m for m in network.trunk.context_encoder.modules() if isinstance(m, nn.Linear))
    assert first.in_features == (20 if wanted else 15)


def linear_bounds(layer: nn.Linear) -> tuple[float, float]:
    return float(layer.weight.detach().abs().max()), float(layer.bias.detach().abs().max())


def test_initialisation_and_sizes_of_the_paper() -> None:
    torch.manual_seed(0)
    dims = Dimensions(40, 6, discrete=False)
    config = Config.build()
    policy = ContextPolicy(dims, config)
    critic = ContextCritic(dims, config, config.algorithm.n_critics)
    layers = [m for m in policy.head.modules() if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in layers] == [(256, 256), (256, 256), (256, 12)]
    xavier = [
        *layers,
        policy.observation,
        *(
            layer
            for network in (policy, critic)
            for part in (network.trunk.context_encoder.before, network.trunk.context_encoder.after)
            for layer in part.modules()
            if isinstance(layer, nn.Linear)
        ),
    ]
    assert len(xavier) == 8
    for layer in xavier:
        weight, bias = linear_bounds(layer)
        bound = (6 / (layer.in_features + layer.out_features)) ** 0.5
        assert 0.98 * bound < weight <= bound
        assert bias == 0
    plain = [critic.observation, critic.action]
    for network in (policy, critic):
        trunk = network.trunk
        plain += [trunk.observation, trunk.last_observation, trunk.last_action]
    for layer in plain:  # torch's own: U(± fan_in^-0.5), bias too
        weight, bias = linear_bounds(layer)
        bound = layer.in_features**-0.5
        assert 0.97 * bound < weight <= bound and 0.9 * bound < bias <= bound
        assert layer.out_features == 128
    assert [tuple(w.shape) for w in critic.heads.weights] == [
        (8, 256, 384),
        (8, 256, 256),
        (8, 1, 256),
    ]
    assert policy.trunk.context_encoder.after.out_features == 128


def test_policy_and_critic_share_no_memory() -> None:
    torch.manual_seed(0)
    policy, critic = ContextPolicy(BOX, small()), ContextCritic(BOX, small(), 3)
    ours = {parameter.data_ptr() for parameter in policy.parameters()}
    assert ours.isdisjoint(parameter.data_ptr() for parameter in critic.parameters())
