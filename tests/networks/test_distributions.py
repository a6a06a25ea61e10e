"""Layers and action distributions against the same thing written out."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.distributions import Categorical as TorchCategorical
from torch.distributions import Normal, TanhTransform, TransformedDistribution
from torch.nn import functional as F

from resel.networks import Categorical, SquashedGaussian
from resel.networks.layers import MLP, xavier_linear


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_xavier_linear() -> None:
    torch.manual_seed(0)
    layer = xavier_linear(300, 100)
    bound = math.sqrt(6 / 400)
    assert 0.99 * bound < layer.weight.detach().abs().max() <= bound
    assert torch.all(layer.bias == 0)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_mlp_equals_its_layers(layers: int) -> None:
    torch.manual_seed(0)
    network = MLP(5, 7, layers, 3).double()
    linear = [m for m in network.modules() if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in linear] == [
        (5, 7),
        *[(7, 7)] * (layers - 1),
        (7, 3),
    ]
    with torch.no_grad():
        for layer in linear:
            assert torch.all(layer.bias == 0)
            layer.bias.normal_()
    x = torch.randn(2, 6, 5, dtype=torch.float64, requires_grad=True)
    expected = x
    for layer in linear[:-1]:
        expected = F.elu(F.linear(expected, layer.weight, layer.bias))
    expected = F.linear(expected, linear[-1].weight, linear[-1].bias)
    y = network(x)
    torch.testing.assert_close(y, expected)
    parameters = list(network.parameters())
    for ours, theirs in zip(
        torch.autograd.grad(y.square().sum(), [x, *parameters]),
        torch.autograd.grad(expected.square().sum(), [x, *parameters]),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def test_log_std_comes_first_and_is_clamped() -> None:
    output = torch.tensor([[-30.0, 5.0, 0.5, 0.1, 0.2, 0.3]])
    distribution = SquashedGaussian.from_output(output)
    assert distribution.log_std.tolist() == [[-20.0, 2.0, 0.5]]
    torch.testing.assert_close(distribution.mean, torch.tensor([[0.1, 0.2, 0.3]]))
    torch.testing.assert_close(distribution.mode(), torch.tanh(distribution.mean))


def random_gaussian(seed: int, steps: int = 200, actions: int = 3) -> SquashedGaussian:
    rng = stream(seed)
    mean = torch.randn(2, steps, actions, generator=rng, dtype=torch.float64)
    log_std = torch.rand(2, steps, actions, generator=rng, dtype=torch.float64) * 3 - 3
    return SquashedGaussian(mean.requires_grad_(), log_std.requires_grad_())


@pytest.mark.parametrize("seed", range(3))
def test_log_density_equals_torch_distributions(seed: int) -> None:
    ours = random_gaussian(seed, steps=50)
    action, log_prob = ours.sample(stream(5))
    assert action.shape == (2, 50, 3) and log_prob.shape == (2, 50)
    assert action.abs().max() <= 1
    theirs = TransformedDistribution(
        Normal(ours.mean, ours.log_std.exp()), [TanhTransform(cache_size=1)]
    )
    inside = (action.abs() < 0.999).all(-1)  # the inverse of tanh is exact enough there
    expected = theirs.log_prob(action).sum(-1)
    torch.testing.assert_close(log_prob[inside], expected[inside], rtol=1e-8, atol=1e-8)
    assert inside.sum() > 50


def test_sample_is_a_reparametrised_one() -> None:
    ours = random_gaussian(0, steps=20)
    action, log_prob = ours.sample(stream(5))
    noise = torch.randn(ours.mean.shape, generator=stream(5), dtype=torch.float64)
    raw = ours.mean + ours.log_std.exp() * noise
    torch.testing.assert_close(action, torch.tanh(raw))
    transform = TanhTransform()
    by_hand = Normal(ours.mean, ours.log_std.exp()).log_prob(raw)
    by_hand = (by_hand - transform.log_abs_det_jacobian(raw, torch.tanh(raw))).sum(-1)
    torch.testing.assert_close(log_prob, by_hand)
    leaves = [ours.mean, ours.log_std]
    for found, wanted in (
        ((action.square().sum()), torch.tanh(raw).square().sum()),
        (log_prob.square().sum(), by_hand.square().sum()),
    ):
        for a, b in zip(
            torch.autograd.grad(found, leaves, retain_graph=True),
            torch.autograd.grad(wanted, leaves, retain_graph=True),
            strict=True,
        ):
            torch.testing.assert_close(a, b)


def test_saturated_actions_have_finite_densities() -> None:
    mean = torch.tensor([[50.0], [-50.0], [0.0]], requires_grad=True)
    log_std = torch.tensor([[-20.0], [2.0], [-20.0]], requires_grad=True)
    action, log_prob = SquashedGaussian(mean, log_std).sample(stream())
    (log_prob.sum() + action.sum()).backward()
    assert torch.isfinite(log_prob).all() and action.abs().max() <= 1
    assert torch.isfinite(mean.grad).all() and torch.isfinite(log_std.grad).all()


def test_samples_have_the_distribution_they_claim() -> None:
    mean = torch.tensor([0.3, -0.5]).expand(20_000, 2)
    log_std = torch.tensor([-1.0, 0.2]).expand(20_000, 2)
    action, _ = SquashedGaussian(mean, log_std).sample(stream())
    raw = torch.atanh(action.double())
    torch.testing.assert_close(raw.mean(0), mean[0].double(), rtol=0, atol=0.04)
    torch.testing.assert_close(raw.std(0), log_std[0].exp().double(), rtol=0.03, atol=0)


def test_detached_distributions_have_no_gradient() -> None:
    action, log_prob = random_gaussian(0).detach().sample(stream())
    assert not action.requires_grad and not log_prob.requires_grad
    logits = torch.randn(4, 3, requires_grad=True)
    assert not Categorical.from_output(logits).detach().log_probs.requires_grad


def test_categorical_equals_torch_distributions() -> None:
    logits = torch.randn(3, 5, 4, generator=stream(), dtype=torch.float64) * 5
    ours, theirs = Categorical.from_output(logits), TorchCategorical(logits=logits)
    torch.testing.assert_close(ours.log_probs, theirs.logits)
    torch.testing.assert_close(ours.log_probs.exp().sum(-1), torch.ones(3, 5).double())
    assert torch.equal(ours.mode(), logits.argmax(-1)[..., None].float())
    entropy = -(ours.log_probs.exp() * ours.log_probs).sum(-1)
    torch.testing.assert_close(entropy, theirs.entropy())


def test_categorical_samples_follow_the_probabilities() -> None:
    logits = torch.tensor([[0.0, 1.0, -1.0], [2.0, 0.0, 0.0]])
    ours = Categorical.from_output(logits.expand(20_000, 2, 3))
    index = ours.sample(stream())
    assert index.shape == (20_000, 2) and index.dtype == torch.int64
    share = F.one_hot(index, 3).double().mean(0)
    torch.testing.assert_close(share, logits.softmax(-1).double(), rtol=0, atol=0.015)
    assert torch.equal(index, ours.sample(stream()))


def test_impossible_actions_are_never_taken() -> None:
    logits = torch.tensor([0.0, -1e4, 0.0]).expand(2000, 3)
    distribution = Categorical.from_output(logits)
    assert not torch.any(distribution.sample(stream()) == 1)


@pytest.mark.parametrize("floor", [0.01, 0.3])
def test_a_floor_is_added_to_every_probability(floor: float) -> None:
    logits = torch.randn(3, 5, 4, generator=stream(), dtype=torch.float64) * 30
    ours = Categorical.from_output(logits, floor)
    expected = (logits.softmax(-1) + floor) / (1 + 4 * floor)
    torch.testing.assert_close(ours.log_probs.exp(), expected)
    torch.testing.assert_close(ours.log_probs.exp().sum(-1), torch.ones(3, 5).double())
    assert torch.equal(ours.mode(), logits.argmax(-1)[..., None].float())
    assert ours.log_probs.exp().min() >= floor / (1 + 4 * floor) - 1e-12
    checked = logits[:, :1].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: Categorical.from_output(x, floor).log_probs, checked)
