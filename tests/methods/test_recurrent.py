"""Recurrent SAC and TD3: updates by the equations (the GRU is written out), batches, settings."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from slow_updates import (
    BOX,
    DISCRETE,
    SlowSAC,
    SlowTD3,
    contexts,
    make_batch,
    make_learner,
)

from resel.agent import configure
from resel.data import Windows
from resel.errors import UnsupportedSpaceError
from resel.methods import get_method
from resel.networks import Dimensions
from resel.tasks import all_tasks, get_task

METHODS = ["sac-gru", "mf-rnn"]


SLOW: dict[str, type[SlowTD3 | SlowSAC]] = {"sac-gru": SlowSAC, "mf-rnn": SlowTD3}
CASES = [("sac-gru", BOX), ("sac-gru", DISCRETE), ("mf-rnn", BOX)]


@pytest.mark.parametrize(("method", "dims"), CASES, ids=["sac-gru", "sac-gru-discrete", "mf-rnn"])
@pytest.mark.parametrize("rate", [None, 1e-4], ids=["one rate", "LR_CE"])
def test_updates_are_what_the_equations_say(
    method: str, dims: Dimensions, rate: float | None
) -> None:
    learner = make_learner(
        method, dims, lr_context_encoder=rate, batch_windows=4, context_length=5, gamma=0.9
    )
    slow = SLOW[method](learner, contexts)
    for number in range(2):
        batch = make_batch(learner, seed=number)
        slow.update(batch)
        learner.update(batch)
        slow.assert_equals()


@pytest.mark.parametrize("method", METHODS)
def test_a_rate_of_its_own_changes_that_group_alone(method: str) -> None:
    usual, own = make_learner(method, BOX), make_learner(method, BOX, lr_context_encoder=1e-5)
    for name, rate in (("policy", 3e-3), ("critic", 1e-2)):
        rates = {g.name: g.lr for g in usual.groups[name]}
        assert rates == {"context_encoder": rate, "other": rate}
        rates = {g.name: g.lr for g in own.groups[name]}
        assert rates == {"context_encoder": 1e-5, "other": rate}
        for group in own.groups[name]:
            inside = [".context_encoder." in key for key in group.parameters]
            assert all(inside) if group.name == "context_encoder" else not any(inside)
    batch = make_batch(usual, seed=0)
    before = {k: v.clone() for k, v in own.networks["critic"].named_parameters()}
    usual.update(batch)
    own.update(batch)
    after = dict(usual.networks["critic"].named_parameters())
    for key, value in own.networks["critic"].named_parameters():
        moved = (value - before[key]).abs().max()
        if ".context_encoder." in key:
            assert 0 < moved < 1.1e-5
        else:
            torch.testing.assert_close(value, after[key])


@pytest.mark.parametrize("method", METHODS)
def test_batches_are_windows_by_number(method: str) -> None:
    learner = make_learner(method, BOX, batch_windows=7, context_length=4)
    assert learner.sampler == Windows(7, 4)
    batch = make_batch(learner, seed=0)
    assert (batch.is_first & batch.mask).sum() == 7


def test_mf_rnn_acts_in_boxes_only() -> None:
    with pytest.raises(UnsupportedSpaceError, match="mf-rnn acts in Box spaces only"):
        make_learner("mf-rnn", DISCRETE)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", ["", *(spec.id for spec in all_tasks())])
def test_small_presets_are_small(method: str, task: str) -> None:
    config = configure(task, method=method, preset="small")
    spec = get_task(task)
    assert config.algorithm.batch_windows <= 16
    assert config.algorithm.context_length == {"mf-rnn": 200, "sac-gru": 64}[method]
    assert config.training.warmup_steps <= 1000
    assert config.network.width == 32 and config.network.head_width == 64
    paid = 4 if task == "TwoGoals-v0" else 0  # the reward alone tells the goal
    assert config.network.reward_embedding == {"mf-rnn": paid, "sac-gru": 4}[method]
    own = config.flat()
    for name, value in (spec.hints if spec else {}).items():
        assert own.get(name, value) == value
    if spec is not None and spec.family == "small":
        assert configure(task, method=method) == config


@pytest.mark.parametrize("method", METHODS)
def test_settings_of_the_source(method: str) -> None:
    found = configure("WalkerBLT-P-v0", method=method)
    settings, sizes = found.algorithm, found.network
    assert (settings.batch_windows, settings.context_length) == (64, 64)
    assert found.training.warmup_steps == 10_000
    assert settings.lr_policy == settings.lr_critic == 3e-4
    assert settings.lr_context_encoder is None
    assert (found.encoder, found.encoder_settings.initialisation) == ("gru", "orthogonal")
    assert sizes.reward_input == sizes.encoder_per_critic == (method == "sac-gru")
    if method == "mf-rnn":
        assert (settings.policy_delay, settings.policy_loss) == (1, "min")
    else:
        assert settings.alpha_loss == "exp"
    wind = configure("Wind-v0", method=method)
    assert wind.algorithm.gamma == 0.9 and wind.network.width == 64
    assert not wind.network.reward_input
    trials = configure("CheetahDir-v0", method=method)
    assert trials.network.reward_input and trials.algorithm.context_length == 400


def test_gravity_tasks_have_the_sizes_of_their_source() -> None:
    config = configure("Ant-gravity-v0", method="sac-gru")
    learner = get_method("sac-gru").learner(config, Dimensions(27, 8, False), torch.device("cpu"))
    trunk: Any = learner.networks["policy"].trunk
    encoder = trunk.context_encoder
    assert encoder.before.linear.weight.shape == (128, 27 + 8)
    assert encoder.rnn.layers.weight_hh_l0.shape == (3 * 64, 64)
    assert encoder.after[0].weight.shape == (2, 64)
    critic: Any = learner.networks["critic"]
    assert [tuple(w.shape) for w in critic.heads.weights] == [
        (2, 128, 2 + 27 + 8),
        (2, 64, 128),
        (2, 1, 64),
    ]
