"""PEARL: updates done again the slow way, beliefs, and what they are worth."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from hidden_goals import BEST, HiddenGoals
from slow_steps import BOX, SlowMethod, make_learner
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

from resel import Agent, Config, losses
from resel.data import CONTEXT, Batch, ReplayBuffer, Trajectory
from resel.methods import build_learner
from resel.training import evaluate, evaluation_seeds

SIZES = {
    "method": "pearl",
    "latent_size": 3,
    "encoder_width": 6,
    "encoder_layers": 2,
    "head_layers": 2,
    "lr_value": 5e-3,
    "batch_tasks": 3,
    "batch_transitions": 5,
    "batch_context": 4,
    "alpha": 0.7,
}
QUICK: dict[str, Any] = {
    "latent_size": 2,
    "encoder_width": 24,
    "encoder_layers": 2,
    "head_width": 24,
    "head_layers": 2,
    "batch_tasks": 4,
    "batch_transitions": 32,
    "batch_context": 16,
    "lr_policy": 3e-3,
    "lr_critic": 3e-3,
    "lr_value": 3e-3,
    "kl_weight": 0.01,
    "alpha": 0.05,
    "gamma": 0.1,
    "tau": 0.05,
    "learn_after": 200,
    "warmup_steps": 100,
    "updates_per_step": 0.5,
    "buffer_steps": 20_000,
    "eval_every": 0,
    "checkpoint_every": 0,
    "device": "cpu",
}


def told_buffer(tasks: int = 3, trials: int = 4) -> ReplayBuffer:
    """Trials of two episodes of noise, the first from the prior."""
    rng = np.random.default_rng(5)
    buffer = ReplayBuffer(500, 3, 2, {"task": 1, "trial": 2, "hidden": 1})
    for number in range(tasks * trials):
        for phase, length in ((0, 6), (1, 4)):
            told = {"task": [number % tasks], "trial": [number, phase], "hidden": [rng.normal()]}
            buffer.add(
                Trajectory(
                    rng.normal(size=(length + 1, 3)).astype(np.float32),
                    rng.uniform(-1, 1, (length, 2)).astype(np.float32),
                    rng.normal(size=length).astype(np.float32),
                    terminated=number % 2 == 0,
                    extras={
                        name: np.tile(np.array(values, np.float32), (length + 1, 1))
                        for name, values in told.items()
                    },
                )
            )
    return buffer


def drawn(learner: Any, seed: int) -> Batch:
    batch = learner.sampler.draw(told_buffer(), np.random.default_rng(seed), len)
    floats = ("observation", "action", "reward", "terminated")
    return dataclasses.replace(batch, **{name: getattr(batch, name).double() for name in floats})


class SlowPEARL(SlowMethod):
    """Rakelly et al. 2019."""

    def through(self, layers: nn.Sequential, x: Tensor) -> Tensor:
        linears = [layer for layer in layers if isinstance(layer, nn.Linear)]
        for layer in linears[:-1]:
            x = (layer.weight @ x + layer.bias).clamp(min=0)
        return linears[-1].weight @ x + linears[-1].bias

    def activate(self, x: Tensor) -> Tensor:
        return x.clamp(min=0)

    def belief(self, batch: Batch, rows: range) -> tuple[Tensor, Tensor]:
        precision: Any = 0.0
        weighed: Any = 0.0
        for r in rows:
            assert bool(batch.extras[CONTEXT][r, 0, 0])
            o, later = batch.observation[r]
            x = torch.cat([o, batch.action[r, 0], batch.reward[r, :1], later])
            output = self.through(self.networks["critic"].encoder, x)
            variance = torch.log1p(output[3:].exp())
            precision = precision + 1 / variance
            weighed = weighed + output[:3] / variance
        return weighed / precision, 1 / precision

    def update(self, batch: Batch) -> dict[str, float]:
        settings, generator = self.settings, self.generator()
        tasks, own, more = settings.batch_tasks, settings.batch_transitions, settings.batch_context
        noise = torch.randn((tasks, 3), generator=generator, dtype=torch.float64)
        jitter = torch.randn((tasks, own, 2), generator=generator, dtype=torch.float64)
        beliefs, kl = [], torch.zeros((), dtype=torch.float64)
        for k in range(tasks):
            first = tasks * own + k * more
            mean, variance = self.belief(batch, range(first, first + more))
            kl = kl + kl_divergence(Normal(mean, variance.sqrt()), Normal(0.0, 1.0)).sum()
            beliefs.append(mean + variance.sqrt() * noise[k])
        steps = [(k, i, k * own + i) for k in range(tasks) for i in range(own)]
        critic, value, policy = (self.networks[n] for n in ("critic", "value", "policy"))
        loss: Any = 0.0
        for k, _, r in steps:
            assert bool(batch.mask[r, 0])
            z, (o, later) = beliefs[k], batch.observation[r]
            with torch.no_grad():
                v = self.through(self.targets["value"].head, torch.cat([later, z]))[0]
                y = settings.reward_scale * batch.reward[r, 0]
                y = y + (1 - batch.terminated[r, 0]) * settings.gamma * v
            for q in self.q(critic, torch.cat([o, z]), batch.action[r, 0]):
                loss = loss + (q[0] - y) ** 2 / len(steps)
        self.descend("critic", loss + settings.kl_weight * kl)
        found = {"critic_loss": loss.item(), "belief_kl": kl.item()}
        critic.requires_grad_(False)
        value_loss: Any = 0.0
        policy_loss: Any = 0.0
        for k, i, r in steps:
            z, o = beliefs[k].detach(), batch.observation[r, 0]
            output = self.through(policy.head, torch.cat([o, z]))
            action, log_prob = self.sampled(output, jitter[k, i])
            soft = min(q[0] for q in self.q(critic, torch.cat([o, z]), action))
            soft = soft - settings.alpha * log_prob
            error = self.through(value.head, torch.cat([o, z]))[0] - soft.detach()
            value_loss = value_loss + error**2 / len(steps)
            log_std, mean = output[:2].clamp(-20, 2), output[2:]
            penalty = 1e-3 * (mean**2).mean() + 1e-3 * (log_std**2).mean()
            policy_loss = policy_loss + (penalty - soft) / len(steps)
        self.descend("value", value_loss)
        self.descend("policy", policy_loss)
        self.follow()
        critic.requires_grad_(True)
        return found | {"value_loss": value_loss.item(), "policy_loss": policy_loss.item()}


def test_updates_are_the_formulas() -> None:
    learner = make_learner(BOX, **SIZES)
    reference = SlowPEARL(learner)
    for number in range(4):
        batch = drawn(learner, number)
        expected = reference.update(batch)
        metrics = learner.update(batch, want_metrics=True)
        for name, value in expected.items():
            assert metrics[name].item() == pytest.approx(value, rel=1e-9, abs=1e-11), name
        reference.check()


def test_contexts_are_of_the_newest_prior_episode_of_the_task() -> None:
    learner = make_learner(BOX, **SIZES)
    batch, n = drawn(learner, 1), 3 * 5
    trial, task = batch.extras["trial"][:, 0], batch.extras["task"][:, 0, 0]
    assert batch.steps == n == int(batch.mask.sum())
    for k in range(3):
        steps, context = slice(5 * k, 5 * k + 5), slice(n + 4 * k, n + 4 * k + 4)
        assert len({*task[steps].tolist(), *task[context].tolist()}) == 1
        assert (trial[context, 1] == 0).all() and (trial[context, 0] >= 9).all()
    assert (trial[:n, 1] == 1).any() and (trial[:n, 0] < 9).any()


def test_the_product_of_gaussians_is_the_closed_form() -> None:
    one, two = Normal(1.0, 2.0), Normal(-3.0, 0.5)
    mean, variance = torch.tensor([[[1.0], [-3.0], [9.0]]]), torch.tensor([[[4.0], [0.25], [1.0]]])
    mask = torch.tensor([[True, True, False]])
    got_mean, got_variance = losses.product_of_gaussians(mean, variance, mask)
    at = torch.linspace(-20, 20, 400_001, dtype=torch.float64)
    density = (one.log_prob(at) + two.log_prob(at)).exp()
    density = density / density.sum()
    expected = (density * at).sum()
    assert got_mean.item() == pytest.approx(expected.item(), rel=1e-6)
    assert got_variance.item() == pytest.approx((density * (at - expected) ** 2).sum().item(), 1e-6)


def test_the_order_of_a_context_does_not_matter() -> None:
    config = Config.build("", {**SIZES, "head_width": 8, "device": "cpu"})
    learner = build_learner(config, BOX, torch.device("cpu"))
    buffer = told_buffer()
    found = []
    for numbers in ((0, 2, 4), (4, 0, 2), (0,), ()):
        played = [buffer.episode(i) for i in numbers]
        found.append(learner.start(played, torch.Generator().manual_seed(1))[0])
    torch.testing.assert_close(found[0], found[1])
    assert not torch.allclose(found[0], found[2]) and not torch.allclose(found[0], found[3])
    assert torch.equal(found[3], torch.randn((1, 3), generator=torch.Generator().manual_seed(1)))


def test_what_is_told_beside_the_task_reaches_nothing() -> None:
    found = []
    for shift in (0.0, 100.0):
        learner = make_learner(BOX, **SIZES)
        batch = drawn(learner, 0)
        extras = {
            name: column if name == CONTEXT else column + shift
            for name, column in batch.extras.items()
        }
        learner.update(dataclasses.replace(batch, extras=extras))
        found.append(learner.weights())
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])
    reads = {name: t.shape[1] for name, t in found[0].items() if name.endswith("head.0.weight")}
    assert reads["policy.head.0.weight"] == 3 + 3  # the observation and the belief


@pytest.mark.slow
def test_after_the_posterior_the_return_rises() -> None:
    trained = Agent(HiddenGoals, "pearl", preset="paper", **QUICK)
    trained.learn(2600)
    env = trained._trainer.evaluator.env
    assert env is not None
    adapted = evaluate(trained.actor, env, evaluation_seeds(1, 8))
    assert adapted.adaptation_steps == 8 * 2 * 8 and adapted.lengths == [8] * 8
    from_prior = []
    for seed in evaluation_seeds(1, 8):
        observation, state, total, ended = env.reset(seed), None, 0.0, False
        while not ended:
            action, state = trained.predict(observation, state)
            outcome = env.step(action)
            observation, total = outcome.observation, total + outcome.reward
            ended = outcome.truncated
        from_prior.append(total)
    assert adapted.return_mean > np.mean(from_prior) + 1.0
    assert adapted.return_mean > 0.7 * BEST  # whoever does not know the goal gets half
    trained.close()


@pytest.mark.slow
def test_it_swings_up_under_gravities_it_has_not_seen() -> None:
    agent = Agent("Pendulum-gravity-v0", "pearl", preset="small", threads=1, device="cpu")
    assert agent._trainer.evaluator.env is not None
    agent.learn(5000)
    found = agent._trainer.evaluate(20)
    assert found is not None and found.adaptation_steps == 20 * 2 * 200
    assert found.return_mean > -600
    agent.close()


def test_trials_are_played_and_told() -> None:
    agent = Agent(HiddenGoals, "pearl", preset="paper", **{**QUICK, "learn_after": 10_000})
    agent.learn(500)
    buffer = agent._trainer.buffer
    trial, task = buffer.told("trial"), buffer.told("task")
    assert trial is not None and task is not None
    for number in range(10):
        own = trial[:, 0] == number
        assert trial[own, 1].tolist() == [0, 1, 1] and len({*task[own, 0].tolist()}) == 1
    assert {*task[:, 0].tolist()} == {0, 1, 2, 3}
    agent.close()
