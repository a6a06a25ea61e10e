"""Networks with embeddings, context encoder and shortcut: who sees what, and packed as separate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from resel.config import Config
from resel.errors import ConfigError
from resel.networks import (
    Categorical,
    ContextInputs,
    Deterministic,
    Dimensions,
    PolicyDistribution,
    SequenceCritic,
    SequenceNetwork,
    SequencePolicy,
    SquashedGaussian,
    encoders,
)

BOX = Dimensions(3, 2, discrete=False)
DISCRETE = Dimensions(3, 4, discrete=True)
SPACES = pytest.mark.parametrize("dims", [BOX, DISCRETE], ids=["box", "discrete"])
EVERY_ENCODER = pytest.mark.parametrize("encoder", [spec.name for spec in encoders()[0]])
LENGTHS = [4, 1, 7, 2]
SMALL: dict[str, Any] = {
    "method": "sac-gru",
    "observation_embedding": 4,
    "action_embedding": 3,
    "reward_embedding": 2,
    "width": 6,
    "policy_shortcut": 5,
    "critic_shortcut": 4,
    "head_width": 7,
    "state_size": 2,
    "conv_kernel": 3,
    "n_heads": 2,
    "longest_episode": 20,
    "smoothing_width": 3,
}
BOTTLENECK: dict[str, Any] = {
    "joint_embedding": True,
    "context_size": 2,
    "policy_shortcut": 0,
    "critic_shortcut": 0,
    "activation": "leaky_relu",
    "last_width": 5,
}
"""The other form of the skeleton: one layer for all inputs, a small context, no shortcut layers."""


def small(**changes: Any) -> Config:
    return Config.build("", SMALL, changes)


def shaken(network: nn.Module) -> Any:
    """In double precision and away from zero biases, which would hide that they are not used; as
    it acts, where no step sees what else is in a batch."""
    network.double().eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return network


def make_policy(dims: Dimensions, *, deterministic: bool = False, **changes: Any) -> SequencePolicy:
    torch.manual_seed(0)
    method = {"method": "mf-rnn"} if deterministic else {}
    config = small(**method, **changes)
    policy = shaken(config.network.policy(config, dims, deterministic=deterministic))
    assert isinstance(policy, SequencePolicy)
    return policy


def make_critic(dims: Dimensions, outputs: int = 1, **changes: Any) -> SequenceCritic:
    torch.manual_seed(0)
    config = small(**changes)
    critic = shaken(config.network.critic(config, dims, 3, outputs))
    assert isinstance(critic, SequenceCritic)
    return critic


def random_inputs(dims: Dimensions, rows: int, length: int, seed: int = 0) -> ContextInputs:
    rng = torch.Generator().manual_seed(seed)
    sizes = (dims.observation, dims.observation, dims.action, 1)
    return ContextInputs(
        *(torch.randn(rows, length, n, generator=rng, dtype=torch.float64) for n in sizes)
    )


def starts(lengths: list[int]) -> Tensor:
    is_first = torch.zeros(1, sum(lengths), dtype=torch.bool)
    for at in range(len(lengths)):
        is_first[0, sum(lengths[:at])] = True
    return is_first


def stacked(distribution: PolicyDistribution) -> Tensor:
    if isinstance(distribution, Categorical):
        return distribution.log_probs
    if isinstance(distribution, Deterministic):
        return distribution.action
    return torch.cat([distribution.mean, distribution.log_std], -1)


def assert_packed_equals_separate(
    run: Callable[[ContextInputs, Tensor, Tensor], Tensor], network: nn.Module, dims: Dimensions
) -> None:
    """`run(inputs, is_first, actions)` gives (..., 1, length, n)."""
    inputs = random_inputs(dims, 1, sum(LENGTHS))
    actions = random_inputs(dims, 1, sum(LENGTHS), seed=1).last_action
    packed = run(inputs, starts(LENGTHS), actions)
    parts, at = [], 0
    for length in LENGTHS:
        own = slice(at, at + length)
        one = ContextInputs(*(part[:, own] for part in inputs))
        parts.append(run(one, starts([length]), actions[:, own]))
        at += length
    separate = torch.cat(parts, -2)
    torch.testing.assert_close(packed, separate, rtol=1e-10, atol=1e-11)
    weights = torch.randn(packed.shape, dtype=torch.float64)
    leaves = list(network.parameters())
    found = torch.autograd.grad((weights * packed).sum(), leaves)
    wanted = torch.autograd.grad((weights * separate).sum(), leaves)
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


@EVERY_ENCODER
@SPACES
def test_policy_packed_equals_separate(encoder: str, dims: Dimensions) -> None:
    policy = make_policy(dims, encoder=encoder)
    assert_packed_equals_separate(
        lambda inputs, is_first, _: stacked(policy(inputs, is_first)), policy, dims
    )


@EVERY_ENCODER
@SPACES
@pytest.mark.parametrize("own", [False, True], ids=["one encoder", "an encoder each"])
def test_critic_packed_equals_separate(encoder: str, dims: Dimensions, own: bool) -> None:
    critic = make_critic(dims, encoder=encoder, encoder_per_critic=own)

    def run(inputs: ContextInputs, is_first: Tensor, actions: Tensor) -> Tensor:
        q = critic.values(critic.embed(inputs, is_first), None if dims.discrete else actions)
        return q if dims.discrete else q[..., None]

    assert_packed_equals_separate(run, critic, dims)


@EVERY_ENCODER
@pytest.mark.parametrize("form", [{}, BOTTLENECK], ids=["shortcut", "bottleneck"])
@pytest.mark.parametrize("deterministic", [False, True])
def test_steps_equal_forward(encoder: str, form: dict[str, Any], deterministic: bool) -> None:
    policy = make_policy(BOX, deterministic=deterministic, encoder=encoder, n_layers=2, **form)
    inputs = random_inputs(BOX, 3, 6)
    whole = stacked(policy(inputs, torch.zeros(3, 6, dtype=torch.bool)))
    state = policy.initial_state(3)
    for t in range(6):
        distribution, state = policy.step(ContextInputs(*(x[:, t] for x in inputs)), state)
        torch.testing.assert_close(stacked(distribution), whole[:, t], rtol=1e-10, atol=1e-11)


def test_shapes() -> None:
    is_first = torch.zeros(2, 5, dtype=torch.bool)
    inputs = random_inputs(BOX, 2, 5)
    gaussian = make_policy(BOX)(inputs, is_first)
    assert isinstance(gaussian, SquashedGaussian)
    assert gaussian.mean.shape == gaussian.log_std.shape == (2, 5, 2)
    one = make_policy(BOX, deterministic=True)(inputs, is_first)
    assert isinstance(one, Deterministic) and one.action.shape == (2, 5, 2)
    discrete = make_policy(DISCRETE)(random_inputs(DISCRETE, 2, 5), is_first)
    assert isinstance(discrete, Categorical) and discrete.log_probs.shape == (2, 5, 4)
    assert make_policy(BOX).context(inputs, is_first).shape == (2, 5, 6)
    assert make_policy(BOX, **BOTTLENECK).context(inputs, is_first).shape == (2, 5, 2)
    for own in (False, True):
        critic = make_critic(BOX, encoder_per_critic=own)
        embedded = critic.embed(inputs, is_first)
        q = critic.values(embedded, inputs.last_action)
        assert q.shape == (3, 2, 5)
        some = critic.values(embedded, inputs.last_action, torch.tensor([2, 0]))
        torch.testing.assert_close(some, q[[2, 0]])
        many = make_critic(BOX, outputs=4, encoder_per_critic=own)
        assert many.values(many.embed(inputs, is_first), inputs.last_action).shape == (3, 2, 5, 4)
        of_all = make_critic(DISCRETE, encoder_per_critic=own)
        embedded = of_all.embed(random_inputs(DISCRETE, 2, 5), is_first)
        assert of_all.values(embedded).shape == (3, 2, 5, 4)


def test_sizes_and_first_weights_of_the_source() -> None:
    dims, config = (
        Dimensions(40, 6, discrete=False),
        Config.build("", {"method": "mf-rnn", "initialisation": "orthogonal"}),
    )
    torch.manual_seed(0)
    policy = config.network.policy(config, dims, deterministic=True)
    critic = config.network.critic(config, dims, 2)
    gru = policy.trunk.context_encoder.rnn.layers
    assert (gru.input_size, gru.hidden_size, gru.num_layers) == (48, 128, 1)
    heads = [m for m in policy.head.modules() if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in heads] == [(160, 256), (256, 256), (256, 6)]
    assert [tuple(w.shape) for w in critic.heads.weights] == [
        (2, 256, 176),
        (2, 256, 256),
        (2, 1, 256),
    ]
    assert len(critic.trunks) == len(critic.shortcuts) == 1
    for trunk in (policy.trunk, critic.trunks[0]):
        layers = trunk.context_encoder.rnn.layers
        for weight in (layers.weight_ih_l0, layers.weight_hh_l0):  # (384, n): columns of length 1
            torch.testing.assert_close(weight.t() @ weight, torch.eye(weight.shape[1]))
        assert not layers.bias_ih_l0.any() and not layers.bias_hh_l0.any()
    for weight, bias in [
        *((m.weight, m.bias) for m in heads[:-1]),
        *zip(critic.heads.weights[:-1], critic.heads.biases[:-1], strict=True),
    ]:
        assert 0.98 / 16 < weight.abs().max() <= 1 / 16  # 256 outputs
        assert torch.all(bias == 0.1)
    assert 0.9e-3 < heads[-1].weight.abs().max() <= 1e-3
    assert 2.9e-3 < critic.heads.weights[-1].abs().max() <= 3e-3


def test_sac_gru_has_an_encoder_for_each_critic_and_reads_the_reward() -> None:
    config = Config.build("", {"method": "sac-gru"})
    assert config.network.reward_input
    policy = config.network.policy(config, BOX, deterministic=False)
    critic = config.network.critic(config, BOX, 2)
    assert policy.trunk.context_encoder.rnn.layers.input_size == 64
    assert len(critic.trunks) == len(critic.shortcuts) == 2
    assert critic.heads.weights[0].shape == (2, 256, 128 + 64)
    pointers = [p.data_ptr() for network in (policy, critic) for p in network.parameters()]
    assert len(set(pointers)) == len(pointers)


def by_hand(linear: nn.Linear, x: Tensor) -> Tensor:
    return x @ linear.weight.t() + linear.bias


def test_the_bottleneck_is_one_layer_a_recurrent_block_and_a_small_context() -> None:
    policy, critic = make_policy(BOX, **BOTTLENECK), make_critic(BOX, **BOTTLENECK)
    inputs, is_first = random_inputs(BOX, 2, 5), torch.zeros(2, 5, dtype=torch.bool)
    raw = torch.cat([inputs.observation, inputs.last_action, inputs.last_reward], -1)
    assert raw.shape[-1] == 6

    def context(trunk: Any) -> Tensor:
        encoder = trunk.context_encoder
        x = F.leaky_relu(by_hand(encoder.before.linear, raw))
        assert x.shape[-1] == 4 + 3 + 2
        return torch.tanh(by_hand(encoder.after[0], encoder.rnn.layers(x)[0]))

    x = torch.cat([context(policy.trunk), inputs.observation], -1)
    first, second, last = (m for m in policy.head.modules() if isinstance(m, nn.Linear))
    assert (first.out_features, second.out_features) == (7, 5)
    x = F.leaky_relu(by_hand(second, F.leaky_relu(by_hand(first, x))))
    torch.testing.assert_close(policy(inputs, is_first).mean, by_hand(last, x).chunk(2, -1)[1])
    q = critic.values(critic.embed(inputs, is_first), inputs.last_action)
    x = torch.cat([context(critic.trunks[1]), inputs.observation, inputs.last_action], -1)
    for layer in range(3):
        x = x @ critic.heads.weights[layer][1].t() + critic.heads.biases[layer][1]
        x = F.leaky_relu(x) if layer < 2 else x
    torch.testing.assert_close(q[1], x[..., 0])


def names_of(network: Any, scope: Any) -> set[str]:
    chosen = {id(p) for p in network.context_parameters(scope)}
    return {name for name, p in network.named_parameters() if id(p) in chosen}


def test_the_context_encoder_is_told_apart_from_the_rest() -> None:
    policy = make_policy(BOX)
    gru = {f"{kind}_{at}_l0" for kind in ("weight", "bias") for at in ("ih", "hh")}
    prefix = "trunk.context_encoder.rnn.layers."
    assert names_of(policy, "encoder") == names_of(policy, "rnn") == {prefix + n for n in gru}
    critic = make_critic(BOX)
    wanted = {f"trunks.{i}.context_encoder.rnn.layers.{name}" for i in range(3) for name in gru}
    assert names_of(critic, "encoder") == wanted
    around = make_policy(BOX, **BOTTLENECK)
    more = {f"trunk.context_encoder.{n}" for n in ("before.linear", "after.0")}
    assert names_of(around, "rnn") == {prefix + n for n in gru}
    assert names_of(around, "encoder") - names_of(around, "rnn") == {
        f"{n}.{kind}" for n in more for kind in ("weight", "bias")
    }


def test_a_block_that_cannot_read_another_width_has_a_layer_in_front() -> None:
    policy = make_policy(BOX, encoder="mamba")
    before = policy.trunk.context_encoder.before[1]
    assert (before.in_features, before.out_features) == (9, 6)
    assert not names_of(policy, "rnn") & {
        f"trunk.context_encoder.before.1.{k}" for k in ("weight",)
    }
    assert "trunk.context_encoder.before.1.weight" in names_of(policy, "encoder")


@pytest.mark.parametrize("size", [0, 2])
def test_the_reward_is_read_only_when_it_has_an_embedding(size: int) -> None:
    policy = make_policy(BOX, reward_embedding=size, activation="leaky_relu")
    assert SequenceNetwork(reward_embedding=size).reward_input == (size > 0)
    inputs, is_first = random_inputs(BOX, 1, 5), torch.zeros(1, 5, dtype=torch.bool)
    inputs.last_reward.requires_grad_()
    inputs.last_observation.requires_grad_()
    out = stacked(policy(inputs, is_first)).sum()
    of_reward, of_last = torch.autograd.grad(
        out, [inputs.last_reward, inputs.last_observation], allow_unused=True
    )
    assert (of_reward is not None and bool(of_reward.any())) == (size > 0)
    assert of_last is None  # o_{t-1} is not an input


@pytest.mark.parametrize("own", [False, True])
def test_frozen_values_pass_the_gradient_of_the_action_and_no_other(own: bool) -> None:
    critic = make_critic(BOX, encoder_per_critic=own)
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


@pytest.mark.parametrize(
    "wrong", [{"width": 0}, {"reward_embedding": -1}, {"activation": "sine"}, {"log_std_min": 3.0}]
)
def test_wrong_sizes_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        small(**wrong)
