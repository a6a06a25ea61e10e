"""Every method has settings for every task it can act in, and small ones for any."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from resel.agent import configure
from resel.config import SIZES, SizeName
from resel.data import PerStep
from resel.data.schedules import Moment
from resel.errors import ConfigError
from resel.methods import build_learner, get_method, methods, preset_settings, smallest_size
from resel.networks import Dimensions
from resel.tasks import all_tasks

ALL = [method.name for method in methods()[0]]


@pytest.mark.parametrize("method", ALL)
def test_all_tasks_have_settings(method: str) -> None:
    for task in all_tasks():
        config = configure(task.id, method=method)
        assert config.training.steps == task.steps
        for name, value in task.hints.items():
            if method != "resel" or not task.id.startswith("CartPole-"):  # which has its own
                assert config.flat().get(name, value) == value
        if task.family == "small":
            assert config.training.warmup_steps <= 1000


@pytest.mark.parametrize("method", ALL)
def test_small_settings_for_any_task(method: str) -> None:
    config = configure("Pendulum-v1", method=method, preset="small")
    assert config.training.warmup_steps <= 1000
    assert smallest_size(config) < smallest_size(
        configure("Pendulum-v1", method=method, preset="paper")
    )
    assert preset_settings(get_method(method), "Pendulum-P-v0", "small")["gamma"] == 0.96


@pytest.mark.parametrize("size", ["paper", "small", "tiny"])
def test_size_is_a_factor_on_the_preset(size: SizeName) -> None:
    factor = SIZES[size]
    for method in ("sac-gru", "sac-mlp"):
        usual = configure("Ant-gravity-v0", method=method).network
        sized = configure("Ant-gravity-v0", method=method, size=size).network
        assert sized.head_width == round(factor * usual.head_width) == round(factor * 128)
        assert sized.last_width == round(factor * 64)
    sized = configure("Ant-gravity-v0", method="sac-gru", size=size).network
    assert sized.width == round(factor * 64)
    assert sized.reward_embedding == sized.policy_shortcut == sized.critic_shortcut == 0
    sized = configure("AntDir-v0", method="mf-rnn", size=size).network
    assert sized.reward_embedding == round(factor * 16)


def test_defaults_are_the_methods_own() -> None:
    td3, sac = (get_method(name).settings() for name in ("td3-mlp", "sac-mlp"))
    assert (td3.policy_delay, td3.policy_loss, td3.batch_transitions) == (1, "min", 64)
    assert (sac.alpha_loss, sac.batch_transitions) == ("exp", 64)
    assert get_method("td3-mlp").network().initialisation == "fan_out"
    with pytest.raises(ConfigError, match=r"alpha_start=2.0 is above alpha_max=1.0"):
        configure("", method="sac", alpha_start=2.0, alpha_max=1.0)
    with pytest.raises(ConfigError, match="auto_lr_start=1e-05 is where an automatic LR_CE"):
        configure("", auto_lr_start=1e-5)
    with pytest.raises(ConfigError, match=r"updates_per_step=1000000000.0 is out of range"):
        configure("", updates_per_step=1e9)


@pytest.mark.parametrize(
    ("method", "task", "expected"),
    [
        ("sac", "Ant-v2", {"batch_transitions": 256, "warmup_steps": 25_000, "alpha_loss": "log"}),
        ("sac-mlp", "AntBLT-P-v0", {"batch_transitions": 64, "warmup_steps": 10_000}),
        ("sac-mlp", "AntBLT-P-v0", {"initialisation": "fan_out", "alpha_loss": "exp"}),
        ("sac-mlp", "Ant-gravity-v0", {"head_width": 128, "last_width": 64, "lr_critic": 1e-3}),
        ("sac-mlp", "Ant-gravity-v0", {"warmup_steps": 4000, "learn_after": 20_000}),
        ("sac-gru", "Ant-gravity-v0", {"buffer_steps": 2_000_000, "initialisation": "torch"}),
        ("sac-mlp", "Ant-gravity-v0", {"target_entropy_scale": 1.5, "alpha_start": 0.2}),
        ("td3", "Ant-v2", {"policy_delay": 2, "policy_loss": "q1", "warmup_steps": 25_000}),
        ("td3-mlp", "AntBLT-P-v0", {"policy_delay": 1, "policy_loss": "min", "lr_critic": 3e-4}),
        ("tqc", "Hopper-v2", {"dropped_quantiles": 5, "critic_width": 512, "critic_layers": 3}),
        ("tqc", "HalfCheetah-v2", {"dropped_quantiles": 0, "warmup_steps": 0}),
        ("tqc", "Ant-v2", {"dropped_quantiles": 2, "n_critics": 5, "learn_after": 256}),
        ("td7", "Ant-v2", {"batch_transitions": 256, "warmup_steps": 25_000, "target_every": 250}),
        ("td7", "Ant-v2", {"assessment_after": 750_000, "assessment_episodes": 20}),
        ("ppo-gru", "AntBLT-P-v0", {"num_envs": 16, "rollout_steps": 128, "warmup_steps": 0}),
        ("ppo-gru", "AntBLT-P-v0", {"epochs": 4, "minibatches": 4, "clip": 0.2}),
        ("ppo-gru", "AntBLT-P-v0", {"lr_policy": 2.5e-4, "lr_context_encoder": None}),
        ("ppo-gru", "AntBLT-P-v0", {"gamma": 0.99, "gae_lambda": 0.95, "value_loss": "squared"}),
        ("ppo-gru", "AntBLT-P-v0", {"entropy_coefficient": 0.01, "bootstrap_truncated": False}),
        ("a2c-gru", "AntBLT-P-v0", {"num_envs": 16, "rollout_steps": 5, "warmup_steps": 0}),
        ("a2c-gru", "AntBLT-P-v0", {"epochs": 1, "minibatches": 1, "lr_policy": 7e-4}),
        ("a2c-gru", "AntBLT-P-v0", {"gamma": 0.99, "gae_lambda": 1.0, "entropy_coefficient": 0.0}),
        ("a2c-gru", "AntBLT-P-v0", {"lr_context_encoder": None, "bootstrap_truncated": False}),
        *(
            (method, task, settings)
            for method in ("ppo-gru", "a2c-gru")
            for task in ("AntBLT-P-v0", "HopperBLT-V-v0")
            for settings in (
                {"encoder": "gru", "width": 64, "initialisation": "orthogonal"},
                {"head_width": 64, "head_layers": 2, "head_initialisation": "orthogonal"},
                {"observation_embedding": 0, "action_embedding": 0, "reward_embedding": 0},
                {"value_coefficient": 0.5, "max_gradient_norm": 0.5, "reward_scale": 1.0},
                {"normalize_observations": True, "normalize_rewards": True},
            )
        ),
        ("rl2", "HalfCheetahVel-v0", {"rollout_steps": 800, "epochs": 2, "clip": 0.1}),
        ("rl2", "AntDir-v0", {"rollout_steps": 200, "clip": 0.05, "value_loss": "huber"}),
        ("rl2", "CheetahDir-v0", {"rollout_steps": 200, "gamma": 0.97, "num_envs": 16}),
        ("varibad", "HalfCheetahVel-v0", {"rollout_steps": 400, "minibatches": 8}),
        ("varibad", "AntDir-v0", {"rollout_steps": 200, "minibatches": 1, "latent_size": 5}),
        ("varibad", "CheetahDir-v0", {"rollout_steps": 800, "epochs": 16, "bounded_mean": True}),
        ("varibad-off", "HalfCheetahVel-v0", {"alpha": 0.2, "gamma": 0.99, "kl_weight": 0.125}),
        ("varibad-off", "Wind-v0", {"alpha": 0.01, "gamma": 0.9, "decodes": "observation"}),
        ("varibad-off", "Wind-v0", {"lr_policy": 7e-5, "lr_vae": 1e-3, "elbo_terms": None}),
        ("td3-ofe", "Ant-v2", {"lr_critic": 1e-3, "lr_features": 3e-4, "feature_layers": 6}),
        ("td3-ofe", "Ant-v2", {"warmup_steps": 10_000, "pretraining_updates": 10_000}),
        ("td3-ofe", "HalfCheetah-v2", {"feature_layers": 8, "predicted_size": None}),
        ("td3-ofe", "Humanoid-v2", {"feature_layers": 8, "predicted_size": 292}),
        ("pearl", "Ant-gravity-v0", {"latent_size": 5, "encoder_width": 200, "head_width": 300}),
        ("pearl", "Ant-gravity-v0", {"batch_tasks": 10, "batch_context": 100, "kl_weight": 0.1}),
        ("pearl", "Ant-gravity-v0", {"learn_after": 80_000, "reward_scale": 5.0, "alpha": 1.0}),
        ("pearl", "Ant-gravity-v0", {"buffer_steps": 2_000_000, "updates_per_step": 0.4}),
        ("mf-rnn", "HalfCheetahVel-v0", {"encoder": "lstm", "width": 128, "reward_embedding": 16}),
        ("mf-rnn", "HalfCheetahVel-v0", {"batch_windows": 32, "context_length": 64}),
        ("mf-rnn", "HalfCheetahVel-v0", {"head_width": 128, "head_layers": 3, "gamma": 0.99}),
        ("mf-rnn", "HalfCheetahVel-v0", {"warmup_steps": 200_000, "updates_per_step": 0.02}),
        ("mf-rnn", "Wind-v0", {"encoder": "lstm", "width": 64, "action_embedding": 8}),
        ("mf-rnn", "Wind-v0", {"head_width": 128, "head_layers": 2, "reward_embedding": 0}),
        ("mf-rnn", "Wind-v0", {"batch_windows": 64, "context_length": 64, "gamma": 0.9}),
        ("mf-rnn", "Wind-v0", {"warmup_steps": 7500, "updates_per_step": 2 / 3}),
        ("mf-rnn", "AntDir-v0", {"encoder": "gru", "batch_windows": 32, "context_length": 400}),
        ("vrm", "AntBLT-P-v0", {"initialisation": "torch", "width": 256, "latents": 64}),
        ("promp", "Ant-gravity-v0", {"num_envs": 40, "phase_steps": 2000, "episode_steps": 100}),
        ("promp", "Ant-gravity-v0", {"inner_step": 0.1, "epochs": 5, "clip": 0.3}),
        ("promp", "Ant-gravity-v0", {"kl_weight": 5e-4, "gae_lambda": 1.0, "lr_policy": 1e-3}),
    ],
)
def test_settings_of_the_sources(method: str, task: str, expected: dict[str, Any]) -> None:
    found = configure(task, method=method).flat()
    assert {name: found[name] for name in expected} == expected


def test_optimisers_of_the_sources() -> None:
    dims = Dimensions(9, 3, discrete=False)
    for method, kind, expected in (
        ("ppo-gru", "AdamW", {"lr": 2.5e-4, "eps": 1e-5, "betas": (0.9, 0.999), "weight_decay": 0}),
        ("a2c-gru", "RMSprop", {"lr": 7e-4, "eps": 1e-5, "decay": 0.99}),
    ):
        config = configure("AntBLT-P-v0", method=method, device="cpu")
        for optimizer in build_learner(config, dims, torch.device("cpu")).optimizers.values():
            assert type(optimizer).__name__ == kind
            for group in optimizer.param_groups:
                assert {name: group[name] for name in expected} == expected


def test_learning_may_wait() -> None:
    schedule = PerStep(1.0, after=10)
    made = [schedule.due(Moment(t - 1, t, 0, 0)) for t in range(1, 15)]
    assert made == [0] * 9 + [1] * 5
