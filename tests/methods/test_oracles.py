"""SAC, TD3 and TQC beside Stable-Baselines3: same weights, batches and noise, same updates.

Both sides run in float64. Their log density adds 1e-6 inside a logarithm, which is switched off
here, and SAC's critic loss has a factor of 1/2 there, which Adam does not feel if its epsilon has
the same factor.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
import sb3_contrib
import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common import policies
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from torch import Tensor, nn

from resel.config import Config
from resel.data import Batch
from resel.methods import Learner, build_learner
from resel.networks import Dimensions

DIMS = Dimensions(3, 2, discrete=False)
ROWS, RATE, GAMMA, TAU = 16, 3e-3, 0.9, 0.1
UPDATES = 4


class Nowhere(gymnasium.Env[Any, Any]):
    """Spaces, nothing else."""

    observation_space = spaces.Box(-np.inf, np.inf, (DIMS.observation,), np.float32)
    action_space = spaces.Box(-1, 1, (DIMS.action,), np.float32)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        return np.zeros(DIMS.observation, np.float32), {}


@pytest.fixture(autouse=True)
def _observations_stay_double(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their policies would turn observations into single precision."""
    monkeypatch.setattr(policies, "preprocess_obs", lambda observation, *_, **__: observation)


def make_learner(method: str, **changes: Any) -> Learner:
    settings = {
        "method": method,
        "head_width": 8,
        "lr_policy": RATE,
        "lr_critic": RATE,
        "lr_alpha": RATE,
        "gamma": GAMMA,
        "tau": TAU,
        "batch_transitions": ROWS,
        "device": "cpu",
    }
    config = Config.build("", settings, changes)
    return build_learner(config, DIMS, torch.device("cpu"), torch.float64)


def make_model(kind: type[Any], critic: list[int], **options: Any) -> Any:
    """Their side, in float64, without anything drawn from a buffer or written to a log."""
    policy = {"net_arch": {"pi": [8, 8], "qf": critic}, "activation_fn": nn.ReLU}
    policy |= options.pop("policy_kwargs", {})
    model = kind(
        "MlpPolicy",
        Nowhere(),
        learning_rate=RATE,
        gamma=GAMMA,
        tau=TAU,
        batch_size=ROWS,
        buffer_size=10,
        policy_kwargs=policy,
        device="cpu",
        **options,
    )
    model.policy.double()
    if getattr(model, "log_ent_coef", None) is not None:
        model.log_ent_coef.data = model.log_ent_coef.data.double()
        model.actor.action_dist.epsilon = 0.0
    model.set_logger(Logger(None, []))
    return model


def make_batch(seed: int) -> Batch:
    """Single transitions as the sampler lays them out; some of them terminal."""
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    first = torch.zeros(ROWS, 2, dtype=torch.bool)
    first[:, 0] = True
    action, reward, ended = normal(ROWS, 2, DIMS.action).tanh(), normal(ROWS, 2), normal(ROWS, 2)
    action[:, 1], reward[:, 1], ended[:, 1] = 0, 0, 0
    observation = normal(ROWS, 2, DIMS.observation)
    ended = (ended > 1).double()
    return Batch(observation, action, reward, ended, first, first.clone(), ROWS, 0)


def give(model: Any, batch: Batch) -> None:
    """Let their next update see this batch."""
    now, then = batch.observation.unbind(1)
    ended, reward = batch.terminated[:, :1], batch.reward[:, :1]
    samples = ReplayBufferSamples(now, batch.action[:, 0], then, ended, reward)
    model.replay_buffer.sample = lambda *_, **__: samples


def coming_noise(learner: Learner, draws: int) -> list[Tensor]:
    """What the learner is about to draw, without drawing it."""
    generator = torch.Generator().set_state(learner.generators["noise"].get_state())
    shape = (ROWS, 2, DIMS.action)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(draws)]


def linears(module: nn.Module) -> list[nn.Linear]:
    return [layer for layer in module.modules() if isinstance(layer, nn.Linear)]


def policy_pairs(ours: Any, theirs: Any) -> Iterator[tuple[Tensor, Tensor]]:
    """Weights that mean the same; ours has the log deviation and the mean in one layer."""
    mine = linears(ours)
    if hasattr(theirs, "log_std"):
        for name in ("weight", "bias"):
            log_std, mean = getattr(mine[-1], name).chunk(2)
            yield log_std, getattr(theirs.log_std, name)
            yield mean, getattr(theirs.mu, name)
        mine, others = mine[:-1], linears(theirs.latent_pi)
    else:
        others = linears(theirs.mu)
    for layer, other in zip(mine, others, strict=True):
        yield from ((layer.weight, other.weight), (layer.bias, other.bias))


def critic_pairs(ours: Any, theirs: Any) -> Iterator[tuple[Tensor, Tensor]]:
    for e, head in enumerate(theirs.q_networks):
        for i, other in enumerate(linears(head)):
            yield ours.heads.weights[i][e], other.weight
            yield ours.heads.biases[i][e], other.bias


def pairs(learner: Learner, model: Any) -> list[tuple[Tensor, Tensor]]:
    found = [
        *policy_pairs(learner.policy, model.actor),
        *critic_pairs(learner.critic, model.critic),
    ]
    found += critic_pairs(learner.target_critic, model.critic_target)
    if "policy" in learner.targets:
        found += policy_pairs(learner.targets["policy"], model.actor_target)
    if learner.temperature is not None:
        found.append((learner.temperature.log_alpha.reshape(1), model.log_ent_coef))
    return found


@torch.no_grad()
def copy_weights(learner: Learner, model: Any) -> None:
    for mine, theirs in pairs(learner, model):
        assert theirs.shape == mine.shape
        theirs.copy_(mine)


def compare(learner: Learner, model: Any, rtol: float = 1e-9) -> None:
    for mine, theirs in pairs(learner, model):
        torch.testing.assert_close(mine.detach(), theirs.detach(), rtol=rtol, atol=1e-2 * rtol)


def logged(model: Any, name: str) -> float:
    return float(model.logger.name_to_value[f"train/{name}"])


def use_gaussian_noise(monkeypatch: pytest.MonkeyPatch, noise: list[Tensor]) -> None:
    """Their policy draws for the observations before those after; ours the other way round."""
    after, before = noise
    queue = [before[:, 0], after[:, 1]]

    def rsample(self: torch.distributions.Normal, sample_shape: Any = ()) -> Tensor:
        return self.loc + self.scale * queue.pop(0)

    monkeypatch.setattr(torch.distributions.Normal, "rsample", rsample)


def check_soft(
    monkeypatch: pytest.MonkeyPatch,
    learner: Learner,
    model: Any,
    *,
    critic_factor: float = 1.0,
    rtol: float = 1e-9,
) -> None:
    copy_weights(learner, model)
    for number in range(UPDATES):
        batch = make_batch(number)
        give(model, batch)
        use_gaussian_noise(monkeypatch, coming_noise(learner, 2))
        model.train(1, ROWS)
        metrics = learner.update(batch, want_metrics=True)
        expected = logged(model, "critic_loss")
        assert critic_factor * metrics["critic_loss"].item() == pytest.approx(expected, rel=rtol)
        assert metrics["policy_loss"].item() == pytest.approx(logged(model, "actor_loss"), rel=rtol)
        assert metrics["alpha"].item() == pytest.approx(logged(model, "ent_coef"), rel=rtol)
        compare(learner, model, rtol)


def test_sac(monkeypatch: pytest.MonkeyPatch) -> None:
    learner, model = make_learner("sac"), make_model(stable_baselines3.SAC, [8, 8])
    for group in model.critic.optimizer.param_groups:
        group["eps"] = 0.5e-8  # as their loss is half of ours
    check_soft(monkeypatch, learner, model, critic_factor=0.5)


def test_tqc(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = make_learner(
        "tqc",
        critic_width=9,
        critic_layers=3,
        n_critics=3,
        quantiles=5,
        dropped_quantiles=1,
    )
    model = make_model(
        sb3_contrib.TQC,
        [9, 9, 9],
        top_quantiles_to_drop_per_net=1,
        policy_kwargs={"n_critics": 3, "n_quantiles": 5},
    )
    # The levels of their quantiles are in single precision.
    check_soft(monkeypatch, learner, model, rtol=1e-6)


def test_td3(monkeypatch: pytest.MonkeyPatch) -> None:
    learner, model = make_learner("td3"), make_model(stable_baselines3.TD3, [8, 8])
    copy_weights(learner, model)
    for number in range(UPDATES):
        batch = make_batch(number)
        give(model, batch)
        noise = coming_noise(learner, 1)[0][:, 1]
        with monkeypatch.context() as patch:
            patch.setattr(Tensor, "normal_", lambda x, mean, std, n=noise: x.copy_(mean + std * n))
            model.train(1, ROWS)
        metrics = learner.update(batch, want_metrics=True)
        assert metrics["critic_loss"].item() == pytest.approx(logged(model, "critic_loss"))
        learned = number % 2 == 1  # the second update is the first of the policy and the targets
        assert ("policy_loss" in metrics) == learned
        if learned:
            assert metrics["policy_loss"].item() == pytest.approx(logged(model, "actor_loss"))
        compare(learner, model)
