"""A step that is not finite is left out on the device, and the host hears of it later."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from resel.config import Config
from resel.data import Batch, ReplayBuffer, Trajectory, pack
from resel.methods import Learner, build_learner
from resel.networks import Dimensions
from resel.optim import READ_EVERY, ParameterGroup
from resel.optim.checks import StepRecord

BOX = Dimensions(3, 2, discrete=False)
DISCRETE = Dimensions(3, 4, discrete=True)
SMALL: dict[str, Any] = {
    "encoder": "gru",
    "width": 8,
    "embedding": 4,
    "head_width": 8,
    "state_size": 2,
    "n_critics": 3,
    "policy_delay": 1,
    "lr_context_encoder": 1e-3,
    "lr_alpha": 1e-2,
    "device": "cpu",
}


def make_learner(dims: Dimensions = BOX, **changes: Any) -> Learner:
    return build_learner(Config.build("", SMALL, changes), dims, torch.device("cpu"))


def make_batch(dims: Dimensions = BOX, seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)
    size = 1 if dims.discrete else dims.action
    buffer = ReplayBuffer(100, dims.observation, size)
    for length in (6, 1, 9):
        actions = rng.integers(2, size=(length, size)).astype(np.float32)
        buffer.add(
            Trajectory(
                rng.normal(size=(length + 1, dims.observation)).astype(np.float32),
                actions,
                rng.normal(size=length).astype(np.float32),
                False,
            )
        )
    return pack(buffer, list(buffer))


def part(learner: Learner, network: str) -> dict[str, Tensor]:
    """Weights, moments and step counters of the critic, or of policy and temperature."""
    names = ("critic",) if network == "critic" else ("policy", "log_alpha")
    tensors = {k: v for k, v in learner.weights().items() if k.split(".")[0] in names}
    owners = ("critic",) if network == "critic" else ("policy", "alpha")
    tensors |= {
        k: v
        for k, v in learner.state()[0].items()
        if k.startswith(tuple(f"optimizer.{owner}." for owner in owners))
    }
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


NETWORKS = ("critic", "policy")


def _last(learner: Learner, network: str) -> Tensor:
    return list(getattr(learner, network).parameters())[-1]


@pytest.mark.parametrize("dims", [BOX, DISCRETE], ids=["box", "discrete"])
@pytest.mark.parametrize("fault", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("network", NETWORKS)
def test_a_gradient_that_is_not_finite_moves_nothing(
    dims: Dimensions, network: str, fault: float
) -> None:
    learner = make_learner(dims)
    learner.update(make_batch(dims))
    learner.steps.read()
    before = {name: part(learner, name) for name in NETWORKS}
    assert any(name.endswith(".step") for name in before[network])

    def spoil(gradient: Tensor) -> Tensor:  # one number of one tensor is enough
        spoiled = gradient.clone()
        spoiled.view(-1)[0] = fault
        return spoiled

    hook = _last(learner, network).register_hook(spoil)
    learner.update(make_batch(dims, 1))
    hook.remove()
    for name in NETWORKS:
        assert same(part(learner, name), before[name]) == (name == network)
    steps = learner.steps.read()
    assert [(s.update, s.network, s.finite) for s in steps] == [
        (2, name, name != network) for name in NETWORKS
    ]
    learner.update(make_batch(dims, 2))
    assert not same(part(learner, network), before[network])
    assert all(step.finite for step in learner.steps.read())


@pytest.mark.parametrize("fault", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_moves_nothing(fault: float) -> None:
    learner = make_learner()
    before = part(learner, "critic")
    batch = make_batch()
    learner.update(dataclasses.replace(batch, reward=batch.reward.abs() * fault))
    after = part(learner, "critic")
    # The moments are made by the first step, taken or not.
    assert same({k: after[k] for k in before}, before)
    assert all(not after[k].any() for k in after.keys() - before.keys())
    critic, policy = learner.steps.read()
    assert not critic.finite and policy.finite


def test_a_step_left_out_does_not_change_the_next() -> None:
    """As if it had never been: the moments know nothing of it, nor does the bias correction."""
    plain, hit = make_learner(alpha=0.2), make_learner(alpha=0.2)
    for learner in (plain, hit):
        learner.update(make_batch())
    hook = _last(hit, "policy").register_hook(lambda gradient: gradient * math.nan)
    state = hit.state()
    hit.update(make_batch(seed=1))
    hook.remove()
    # All that moved meanwhile is put back, but for the policy and its optimiser.
    kept = part(hit, "policy")
    hit.load_weights(plain.weights() | {k: v for k, v in kept.items() if k.startswith("policy.")})
    hit.restore({**state[0], **{k: v for k, v in kept.items() if "optimizer" in k}}, state[1])
    for learner in (plain, hit):
        learner.update(make_batch(seed=2))
    assert same(part(plain, "policy"), part(hit, "policy"))


@pytest.mark.parametrize("fault", [math.nan, math.inf])
def test_the_range_of_past_targets_is_kept(fault: float) -> None:
    learner = make_learner(clamp_target_values=True)
    learner.update(make_batch())
    before = learner.state()[0]["clamp_bounds"].clone()
    batch = make_batch(seed=1)
    learner.update(dataclasses.replace(batch, reward=batch.reward * fault))
    assert torch.equal(learner.state()[0]["clamp_bounds"], before)
    learner.update(batch)
    assert not torch.equal(learner.state()[0]["clamp_bounds"], before)


@pytest.mark.parametrize("encoder", ["gru", "mamba"])
@pytest.mark.parametrize("dims", [BOX, DISCRETE], ids=["box", "discrete"])
def test_an_update_never_waits_for_the_device(
    monkeypatch: pytest.MonkeyPatch, dims: Dimensions, encoder: str
) -> None:
    learner = make_learner(dims, encoder=encoder, clamp_target_values=True)
    learner.update(make_batch(dims))

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the host asked for a value")

    with monkeypatch.context() as patch:
        for name in ("item", "tolist", "__bool__", "__float__", "__int__", "__index__"):
            patch.setattr(Tensor, name, refuse)
        with pytest.raises(AssertionError, match="asked for a value"):
            bool(torch.ones(()))
        for seed in range(3):
            learner.update(make_batch(dims, seed))
    assert len(learner.steps.read()) == 2 * 4


@pytest.mark.parametrize("changes", [{}, {"encoder": "mlp", "lr_scope": "rnn"}])
def test_the_norms_are_those_of_the_metrics(changes: dict[str, Any]) -> None:
    learner = make_learner(**changes)
    learner.update(make_batch())
    learner.steps.read()
    metrics = learner.update(make_batch(seed=1), want_metrics=True)
    steps = learner.steps.read()
    assert [(step.update, step.network) for step in steps] == [(2, "critic"), (2, "policy")]
    for step in steps:
        assert step.norms.keys() == {"context_encoder", "other"}
        for group, norm in step.norms.items():
            shown = metrics[f"gradient_norm/{step.network}/{group}"].item()
            assert norm == pytest.approx(shown, rel=1e-5)
            assert norm > 0


def test_what_nobody_reads_is_forgotten_oldest_first() -> None:
    record = StepRecord()
    assert record.read() == []
    weight = torch.zeros(2, requires_grad=True)
    groups = [ParameterGroup("other", {"weight": weight}, 1e-3)]
    for update in range(1, 2 * READ_EVERY + 1):
        weight.grad.copy_(torch.tensor([3.0 * update, 4.0 * update]))
        for network in NETWORKS:
            assert record.add(update, network, [torch.ones(())], groups).item() == 0
    steps = record.read()
    assert [(step.update, step.network) for step in steps] == [
        (update, network)
        for update in range(READ_EVERY + 1, 2 * READ_EVERY + 1)
        for network in NETWORKS
    ]
    assert all(step.finite and step.norms == {"other": 5 * step.update} for step in steps)
    assert record.read() == []
    record.add(1, "critic", [torch.ones(())], groups)
    record.clear()
    assert record.read() == []


@pytest.mark.parametrize("fault", [math.nan, math.inf, -math.inf, 1e38])
@pytest.mark.parametrize("where", ["loss", "entropy", "gradient"])
def test_one_number_is_enough(where: str, fault: float) -> None:
    record = StepRecord()
    weights = {name: torch.zeros(5, requires_grad=True) for name in "abc"}
    group = ParameterGroup("other", weights, 1e-3)
    for weight in weights.values():
        assert weight.grad is not None
        weight.grad.fill_(1)
    values = [torch.tensor(fault if where == name else 1.0) for name in ("loss", "entropy")]
    if where == "gradient":
        assert weights["b"].grad is not None
        weights["b"].grad[3] = fault
    skipped = record.add(1, "policy", values, [group])
    (step,) = record.read()
    if where == "gradient" and fault == 1e38:  # its square may be too large, which counts as well
        assert skipped.item() == (not step.finite)
    else:
        assert skipped.item() == (not math.isfinite(fault)) == (not step.finite)
    assert skipped.dtype == torch.float32
