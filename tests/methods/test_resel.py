"""What a learner owns: weights, temperature, random streams and their continuation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from resel.config import Config
from resel.data import Batch, ReplayBuffer, Trajectory, pack
from resel.errors import ConfigError, DamagedFileError
from resel.methods import build_learner
from resel.networks import Dimensions, encoders

BOX = Dimensions(3, 2, discrete=False)
DISCRETE = Dimensions(3, 4, discrete=True)
both_kinds = pytest.mark.parametrize("dims", [BOX, DISCRETE], ids=["box", "discrete"])
SMALL: dict[str, Any] = {
    "encoder": "gru",
    "width": 8,
    "embedding": 4,
    "head_width": 8,
    "state_size": 2,
    "n_critics": 5,
    "lr_context_encoder": 1e-3,
    "device": "cpu",
}


def make_learner(dims: Dimensions = BOX, **changes: Any) -> Any:
    return build_learner(Config.build("", SMALL, changes), dims, torch.device("cpu"))


def make_buffer(
    dims: Dimensions, lengths: list[int], seed: int, terminated: bool = False
) -> ReplayBuffer:
    rng = np.random.default_rng(seed)
    size = 1 if dims.discrete else dims.action
    buffer = ReplayBuffer(500, dims.observation, size)
    for length in lengths:
        action = (
            rng.integers(dims.action, size=(length, 1))
            if dims.discrete
            else rng.uniform(-1, 1, (length, size))
        )
        buffer.add(
            Trajectory(
                rng.normal(size=(length + 1, dims.observation)).astype(np.float32),
                action.astype(np.float32),
                rng.normal(size=length).astype(np.float32),
                terminated,
            )
        )
    return buffer


def make_batch(dims: Dimensions, seed: int = 0, **options: Any) -> Batch:
    buffer = make_buffer(dims, [6, 1, 9, 4], seed, **options)
    return pack(buffer, list(buffer))


def copied(tensors: Any) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def changed(before: dict[str, Tensor], after: dict[str, Tensor]) -> set[str]:
    """Which of policy, critic, target_critic, log_alpha differ."""
    return {name.split(".")[0] for name in before if not torch.equal(before[name], after[name])}


@both_kinds
def test_policy_and_temperature_learn_at_every_second_update(dims: Dimensions) -> None:
    learner = make_learner(dims)
    always = {"critic", "target_critic"}
    for number in range(5):
        before = copied(learner.weights())
        metrics = learner.update(make_batch(dims, number), want_metrics=True)
        moved = changed(before, learner.weights())
        assert moved == always | ({"policy", "log_alpha"} if number % 2 == 0 else set())
        assert ("policy_loss" in metrics) == (number % 2 == 0)
        assert learner.updates == number + 1


def test_the_delay_is_a_setting() -> None:
    learner = make_learner(policy_delay=1)
    for number in range(3):
        before = copied(learner.weights())
        learner.update(make_batch(BOX, number))
        assert "policy" in changed(before, learner.weights())


@both_kinds
@pytest.mark.parametrize("alpha", [0.2, 0.0])
def test_a_fixed_temperature_stays(dims: Dimensions, alpha: float) -> None:
    learner = make_learner(dims, alpha=alpha)
    for number in range(3):
        metrics = learner.update(make_batch(dims, number), want_metrics=True)
        assert metrics["alpha"].item() == pytest.approx(alpha, rel=1e-6, abs=1e-30)


def test_the_temperature_starts_at_one_and_steers_to_the_target_entropy() -> None:
    learner = make_learner(lr_alpha=0.01)
    assert learner.temperature.log_alpha.item() == 0
    entropy = learner.update(make_batch(BOX), want_metrics=True)["entropy"].item()
    expected = -0.01 * math.copysign(1, entropy - learner.temperature.target_entropy)
    assert learner.temperature.log_alpha.item() == pytest.approx(expected, rel=1e-4)


def test_the_temperature_has_a_floor() -> None:
    learner = make_learner(lr_alpha=500.0, target_entropy_scale=50.0)
    learner.update(make_batch(BOX))
    assert 0 < learner.temperature.value.item() < 1e-15, "values are divided by it"


@pytest.mark.parametrize(
    ("dims", "coefficient", "expected"),
    [
        (BOX, None, -2.0),
        (BOX, 0.0, 0.0),
        (BOX, 0.5, -1.0),
        (DISCRETE, None, 0.2 * math.log(4)),
        (DISCRETE, 0.6, 0.6 * math.log(4)),
    ],
)
def test_target_entropy(dims: Dimensions, coefficient: float | None, expected: float) -> None:
    learner = make_learner(dims, target_entropy_scale=coefficient)
    assert learner.temperature.target_entropy == pytest.approx(expected)


def test_the_target_entropy_falls() -> None:
    learner = make_learner(DISCRETE, target_entropy_scale=1.5, lr_alpha=0.01, entropy_half_life=10)
    # No policy is as random as 1.5 log(4): alpha rises until the target has fallen below it.
    signs = []
    for updates in (0, 2, 100, 102):
        learner.updates = updates
        before = learner.temperature.log_alpha.item()
        learner.temperature.optimizer.state.clear()
        learner.update(make_batch(DISCRETE, updates))
        signs.append(math.copysign(1, learner.temperature.log_alpha.item() - before))
    assert signs == [1, 1, -1, -1]


@pytest.mark.parametrize(
    ("dims", "changes", "said"),
    [
        (BOX, {"policy_kl": "forward"}, "policy_kl=forward is for Discrete actions"),
        (BOX, {"entropy_half_life": 9}, "entropy_half_life=9 is for Discrete actions"),
        (DISCRETE, {"entropy_half_life": 9, "alpha": 0.1}, "does not have: leave one of them out"),
        (DISCRETE, {"entropy_half_life": 0}, "entropy_half_life"),
    ],
)
def test_refused(dims: Dimensions, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_learner(dims, **changes)


def test_the_target_starts_as_the_critic_and_follows_slowly() -> None:
    learner = make_learner(tau=0.1)
    pairs = list(zip(learner.critic.parameters(), learner.target_critic.parameters(), strict=True))
    assert all(torch.equal(a, b) and a.data_ptr() != b.data_ptr() for a, b in pairs)
    assert not any(target.requires_grad for _, target in pairs)
    before = [target.clone() for _, target in pairs]
    learner.update(make_batch(BOX))
    for (critic, target), old in zip(pairs, before, strict=True):
        torch.testing.assert_close(target, 0.9 * old + 0.1 * critic.detach())


@both_kinds
def test_the_target_reads_only_the_drawn_heads(dims: Dimensions) -> None:
    """Heads outside the draw may hold anything; those inside may not."""
    drawn = torch.randperm(5, generator=make_learner(dims).generators["subset"])[:2]
    untouched = make_learner(dims)
    untouched.update(make_batch(dims))
    expected = copied(dict(untouched.critic.named_parameters()))
    for head in range(5):
        learner = make_learner(dims)
        with torch.no_grad():  # lower than all others: a minimum over all heads would take it
            learner.target_critic.heads.biases[-1][head] -= 1000
        learner.update(make_batch(dims))
        same = all(torch.equal(p, expected[n]) for n, p in learner.critic.named_parameters())
        assert same == (head not in drawn.tolist())


def test_heads_are_drawn_anew_each_time_and_evenly() -> None:
    generator = make_learner().generators["subset"]
    draws = [frozenset(torch.randperm(5, generator=generator)[:2].tolist()) for _ in range(500)]
    assert len(set(draws)) == 10 and all(len(draw) == 2 for draw in draws)


@both_kinds
def test_terminated_episodes_do_not_look_past_their_end(dims: Dimensions) -> None:
    """The last observation changes the critic only through a bootstrapped value."""
    for terminated in (True, False):
        results = []
        for shift in (0.0, 5.0):
            batch = make_batch(dims, terminated=terminated)
            last = ~batch.mask  # one packed sequence without padding: these are the o_L
            batch.observation[last] += shift
            learner = make_learner(dims)
            learner.update(batch)
            results.append(copied(dict(learner.critic.named_parameters())))
        same = all(torch.equal(results[0][n], results[1][n]) for n in results[0])
        assert same == terminated


@both_kinds
def test_the_last_observation_never_enters_the_losses(dims: Dimensions) -> None:
    batch = make_batch(dims, terminated=True)
    results = []
    for shift in (0.0, 5.0):
        batch.observation[~batch.mask] += shift
        learner = make_learner(dims)
        for _ in range(3):
            learner.update(batch)
        results.append(copied(learner.weights()))
    assert changed(results[0], results[1]) == set()


def test_rewards_are_scaled_in_the_targets_alone() -> None:
    batch = make_batch(BOX, terminated=True)
    targets = {}
    for scale in (1.0, 4.0):
        learner = make_learner(reward_scale=scale, gamma=0.0)
        targets[scale] = learner.update(batch, want_metrics=True)["target_mean"].item()
        expected = scale * batch.reward[batch.mask].mean().item()
        assert targets[scale] == pytest.approx(expected, rel=1e-5)


def test_a_normalizer_changes_what_the_networks_read() -> None:
    """Batches that differ by the scale of their observations teach the same once normalised."""
    results = []
    for scale, offset in ((1.0, 0.0), (8.0, 16.0)):
        learner = make_learner(normalize_observations=True)
        batch = make_batch(BOX)
        batch.observation.mul_(scale).add_(offset)
        learner.normalizer.update(batch.observation[0].numpy())
        learner.update(batch)
        results.append(copied(dict(learner.critic.named_parameters())))
    for name, value in results[0].items():
        torch.testing.assert_close(results[1][name], value, rtol=0, atol=2e-5)
    plain = make_learner()
    plain.update(make_batch(BOX))
    assert any(
        not torch.allclose(results[0][n], p, rtol=0, atol=1e-4)
        for n, p in plain.critic.named_parameters()
    )


def test_building_and_learning_leave_the_global_stream_alone() -> None:
    before = torch.get_rng_state()
    learner = make_learner(encoder="mamba")
    for number in range(2):
        learner.update(make_batch(BOX, number))
    assert torch.equal(torch.get_rng_state(), before)


def test_weights_depend_on_the_seed_and_on_nothing_else() -> None:
    first = copied(make_learner(seed=3).weights())
    torch.randn(100)
    assert changed(first, make_learner(seed=3).weights()) == set()
    assert changed(first, make_learner(seed=4).weights()) == {"policy", "critic", "target_critic"}


@pytest.mark.parametrize("encoder", [spec.name for spec in encoders()[0]])
def test_the_same_run_twice_is_the_same_to_the_bit(encoder: str) -> None:
    results = []
    for _ in range(2):
        learner = make_learner(encoder=encoder)
        for number in range(3):
            learner.update(make_batch(BOX, number))
        results.append(copied(learner.weights()))
    assert changed(*results) == set()


def test_metrics_do_not_change_the_update() -> None:
    results = []
    for want in (False, True):
        learner = make_learner()
        found = [learner.update(make_batch(BOX, n), want_metrics=want) for n in range(2)]
        assert all(bool(metrics) == want for metrics in found)
        results.append(copied(learner.weights()))
    assert changed(*results) == set()


def test_gradient_norms_are_reported_for_each_group() -> None:
    learner = make_learner()
    metrics = learner.update(make_batch(BOX), want_metrics=True)
    names = {
        f"gradient_norm/{n}/{g}" for n in ("policy", "critic") for g in ("context_encoder", "other")
    }
    assert {name for name in metrics if name.startswith("gradient_norm")} == names
    for name in names:
        _, network, group = name.split("/")
        (parameters,) = [g.parameters for g in learner.groups[network] if g.name == group]
        norm = torch.cat([p.grad.flatten() for p in parameters.values()]).norm()
        torch.testing.assert_close(metrics[name], norm)


@both_kinds
@pytest.mark.parametrize("encoder", ["mamba", "gru"])
def test_a_restored_learner_goes_on_to_the_bit(dims: Dimensions, encoder: str) -> None:
    options = {"encoder": encoder, "clamp_target_values": True, "normalize_observations": True}
    options |= {"td_lambda": 0.5}
    old = make_learner(dims, **options)
    old.normalizer.update(make_batch(dims).observation[0].numpy())
    for number in range(3):  # odd: the next update leaves the policy out
        old.update(make_batch(dims, number))
    weights = copied(old.weights())
    tensors, document = old.state()
    tensors = copied(tensors)

    new = make_learner(dims, **options)
    for number in range(2):  # other moments, other streams
        new.update(make_batch(dims, 100 + number))
    new.load_weights(weights)
    new.restore(tensors, document)
    assert new.updates == 3
    for number in range(3, 7):
        metrics = [
            learner.update(make_batch(dims, number), want_metrics=True) for learner in (old, new)
        ]
        assert metrics[0].keys() == metrics[1].keys()
        assert all(torch.equal(metrics[0][name], metrics[1][name]) for name in metrics[0])
        assert changed(old.weights(), new.weights()) == set()
    mine, yours = old.state(), new.state()
    assert mine[1] == yours[1]
    assert all(torch.equal(mine[0][name], yours[0][name]) for name in mine[0])


def test_a_learner_restored_before_its_first_update() -> None:
    old, new = make_learner(), make_learner()
    new.update(make_batch(BOX, 5))
    new.load_weights(copied(old.weights()))
    tensors, document = old.state()
    new.restore(copied(tensors), document)
    for learner in (old, new):
        learner.update(make_batch(BOX))
    assert changed(old.weights(), new.weights()) == set()


@pytest.mark.parametrize("missing", ["stream.noise", "stream.subset", "clamp_bounds"])
def test_a_state_with_something_missing_is_refused(missing: str) -> None:
    learner = make_learner()
    tensors, document = learner.state()
    with pytest.raises(DamagedFileError, match="cannot be used"):
        learner.restore({n: t for n, t in tensors.items() if n != missing}, document)
    with pytest.raises(DamagedFileError, match="cannot be used"):
        learner.restore({**tensors, "stream.noise": torch.zeros(3, dtype=torch.uint8)}, document)
    with pytest.raises(DamagedFileError, match="cannot be used"):
        learner.restore(tensors, {})


def test_saved_weights_name_everything_learned() -> None:
    learner = make_learner(normalize_observations=True)
    names = learner.weights().keys()
    assert {name.split(".")[0] for name in names} == {
        "policy",
        "critic",
        "target_critic",
        "normalizer",
        "log_alpha",
    }
    for module, prefix in ((learner.policy, "policy"), (learner.critic, "critic")):
        assert {f"{prefix}.{n}" for n, _ in module.named_parameters()} <= names


def test_learning_makes_the_critic_better() -> None:
    learner = make_learner(gamma=0.0, lr_critic=1e-2, lr_context_encoder=1e-2)
    batch = make_batch(BOX)
    losses = [learner.update(batch, want_metrics=True)["critic_loss"].item() for _ in range(200)]
    assert losses[-1] < 0.05 * losses[0]
