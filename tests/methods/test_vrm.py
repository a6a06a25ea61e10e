"""VRM: updates done again the slow way, the bound by torch's distributions, and its phases."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from method_cases import noise_buffer, small_config
from recall_tasks import STEPS, Sign
from slow_steps import BOX, SlowMethod, make_batch, make_learner
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

from resel import Agent
from resel.agent import configure
from resel.data import Batch, Moment, Pretrained, Windows
from resel.methods import Learner, get_method
from resel.networks import SequenceModel

SIZES = {
    "method": "vrm",
    "width": 5,
    "latents": 3,
    "model_width": 4,
    "lr_value": 4e-3,
    "lr_model": 6e-3,
    "lr_first_model": 7e-3,
    "critic_width": 6,
}


def through(layers: Any, x: Tensor, activation: Any) -> Tensor:
    linears = [layer for layer in layers if isinstance(layer, nn.Linear)]
    for layer in linears[:-1]:
        x = activation(layer.weight @ x + layer.bias)
    return linears[-1].weight @ x + linears[-1].bias


def gaussian(net: Any, x: Tensor, lowest: float = 0.0) -> Normal:
    std = torch.log1p(through(net.std, x, torch.tanh).exp()) + lowest
    return Normal(through(net.mean, x, torch.tanh), std)


def cell(model: Any, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    own = model.cell
    gates = own.weight_ih @ x + own.bias_ih + own.weight_hh @ h + own.bias_hh
    i, f, g, o = gates.chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


class SlowVRM(SlowMethod):
    """Han et al. 2020, step by step."""

    def seen(self, batch: Batch, r: int, t: int) -> tuple[Tensor, Tensor]:
        """What is seen at a slot, with the last reward, and the last action."""
        past = not bool(batch.is_first[r, t])
        reward = self.settings.reward_scale * batch.reward[r, t - 1 :][:1] * past
        return torch.cat([batch.observation[r, t], reward]), batch.action[r, t - 1] * past

    def bound(self, name: str, batch: Batch, generator: torch.Generator) -> Tensor:
        """The negative evidence lower bound."""
        model: Any = self.networks[name]
        shape = (2, *batch.mask.shape, model.latents)
        noise = torch.randn(shape, generator=generator, dtype=torch.float64)
        total: Any = 0.0
        for r in range(len(batch.mask)):
            for t in range(batch.mask.shape[1]):
                if t == 0 or batch.is_first[r, t]:
                    h = c = torch.zeros(5, dtype=torch.float64)
                elif batch.mask[r, t] and not batch.mask[r, t - 1]:  # the end of the burn-in
                    h, c = h.detach(), c.detach()
                x, action = self.seen(batch, r, t)
                phi = through(model.phi, x, torch.tanh)
                prior = gaussian(model.prior, torch.cat([h, action]))
                posterior = gaussian(model.posterior, torch.cat([h, action, phi]))
                if t and batch.mask[r, t - 1]:
                    z = prior.mean + prior.stddev * noise[1, r, t]
                    expected = gaussian(model.decoder, torch.cat([h, z]), 1e-3)
                    total = total + kl_divergence(posterior, prior).mean()
                    total = total - expected.log_prob(x).mean()
                z = posterior.mean + posterior.stddev * noise[0, r, t]
                h, c = cell(model, torch.cat([phi, z]), h, c)
        return total / batch.steps

    def memories(self, batch: Batch, r: int) -> list[Tensor]:
        """s_t along a row."""
        found, states = [], {}
        for t in range(batch.mask.shape[1]):
            x, action = self.seen(batch, r, t)
            for name in ("first_model", "model"):
                model: Any = self.networks[name]
                if t == 0 or batch.is_first[r, t]:
                    states[name] = (torch.zeros(5, dtype=torch.float64),) * 2
                h, c = states[name]
                phi = through(model.phi, x, torch.tanh)
                z = through(model.posterior.mean, torch.cat([h, action, phi]), torch.tanh)
                states[name] = cell(model, torch.cat([phi, z]), h, c)
            found.append(torch.cat([states["first_model"][0], states["model"][0], x]).detach())
        return found

    def act(self, s: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """An action, its log density, and the penalty on what it was drawn from."""
        policy: Any = self.networks["policy"]
        mean, log_std = (through(n, s, self.activate) for n in (policy.mean, policy.log_std))
        action, log_prob = self.sampled(torch.cat([log_std, mean]), noise)
        std = log_std.clamp(-20, 2).exp()
        return action, log_prob, 0.5 * self.settings.action_penalty * (mean**2 + std**2).mean()

    def both(self, s: Tensor, action: Tensor) -> Tensor:
        return torch.cat(self.q(self.networks["critic"].inside, s, action))

    def update(self, batch: Batch) -> dict[str, float]:
        settings, found = self.settings, {}
        ahead = torch.Generator().set_state(self.learner.generators["model"].get_state())
        number = self.updates - settings.pretraining_updates
        names = ["first_model"] if number < 0 else []
        if number >= 0 and number % settings.model_every == 0:
            names = ["model"] if settings.pretraining_updates else ["model", "first_model"]
        for name in names:
            loss = self.bound(name, batch, ahead)
            self.descend(name, loss)
            found[f"{name}_loss"] = loss.item()
        self.updates += 1
        return found | (self.sac(batch) if number >= 0 else {})

    def sac(self, batch: Batch) -> dict[str, float]:
        """SAC of 2018."""
        settings, generator = self.settings, self.generator()
        short = dataclasses.replace(batch, is_first=batch.is_first[:, 1:])
        noises = [self.noise(short, generator) for _ in range(2)]
        rows = [self.memories(batch, r) for r in range(len(batch.mask))]
        steps, alpha = batch.mask.nonzero().tolist(), self.log_alpha.detach().exp()
        n, value = len(steps), self.networks["value"]
        wanted, targets = [], []
        for r, t in steps:
            with torch.no_grad():
                action, log_prob, _ = self.act(rows[r][t], noises[0][r, t])
                wanted.append(self.both(rows[r][t], action).min() - alpha * log_prob)
                after = through(self.targets["value"].head, rows[r][t + 1], self.activate)[0]
                y = settings.reward_scale * batch.reward[r, t]
                targets.append(y + (0 if batch.terminated[r, t] else settings.gamma * after))
        losses: dict[str, Any] = {"value": 0.0, "critic": 0.0, "policy": 0.0}
        for (r, t), v in zip(steps, wanted, strict=True):
            guess = through(value.head, rows[r][t], self.activate)[0]
            losses["value"] = losses["value"] + 0.5 * (guess - v) ** 2 / n
        self.descend("value", losses["value"])
        for (r, t), y in zip(steps, targets, strict=True):
            errors = self.both(rows[r][t], batch.action[r, t]) - y
            losses["critic"] = losses["critic"] + 0.5 * (errors**2).sum() / n
        self.descend("critic", losses["critic"])
        entropy: Any = 0.0
        for r, t in steps:
            action, log_prob, penalty = self.act(rows[r][t], noises[1][r, t])
            q = self.both(rows[r][t], action).min()
            losses["policy"] = losses["policy"] + (alpha * log_prob - q + penalty) / n
            entropy = entropy - log_prob.detach() / n
        self.descend("policy", losses["policy"])
        self.steer(entropy)
        self.follow()
        return {f"{name}_loss": loss.item() for name, loss in losses.items()}


def burnt_in(batch: Batch, steps: int = 2) -> Batch:
    """The same, but the first steps of each row are only read."""
    mask = batch.mask.clone()
    mask[:, :steps] = False
    return dataclasses.replace(batch, mask=mask, steps=int(mask.sum()))


@pytest.mark.parametrize("pretraining", [0, 2])
def test_updates_are_the_formulas(pretraining: int) -> None:
    learner = make_learner(BOX, **SIZES, model_every=2, pretraining_updates=pretraining)
    reference = SlowVRM(learner)
    for number in range(4):
        batch = burnt_in(make_batch(BOX, number, packed=True))
        expected = reference.update(batch)
        metrics = learner.update(batch, want_metrics=True)
        assert {n for n in metrics if n.endswith("_loss")} == set(expected)
        for name, value in expected.items():
            assert metrics[name].item() == pytest.approx(value, rel=1e-9, abs=1e-11), name
        reference.check()


def weights_of(learner: Learner, name: str) -> Tensor:
    parts = learner.networks[name].parameters()
    return torch.cat([part.detach().flatten().clone() for part in parts])


def test_the_first_model_learns_alone_and_then_stays_as_it_is() -> None:
    learner = make_learner(BOX, **SIZES, pretraining_updates=2, model_every=1)
    moved = []
    for number in range(4):
        before = {name: weights_of(learner, name) for name in learner.networks}
        learner.update(make_batch(BOX, number, packed=True))
        now = {name: weights_of(learner, name) for name in learner.networks}
        moved.append({name for name in now if not torch.equal(before[name], now[name])})
    assert moved[:2] == [{"first_model"}] * 2
    assert moved[2:] == [{"model", "policy", "value", "critic"}] * 2


def test_no_loss_of_the_policy_reaches_a_model() -> None:
    learner = make_learner(BOX, **SIZES)
    batch = make_batch(BOX, 0, packed=True)
    inputs, _ = learner.inputs(batch)
    models = [p for n in ("first_model", "model") for p in learner.networks[n].parameters()]
    loss = learner.policy_values(batch, inputs)[0]
    assert all(g is None for g in torch.autograd.grad(loss, models, allow_unused=True))


def test_the_schedule_waits_then_pretrains_then_learns_at_every_step() -> None:
    learner = make_learner(BOX, **SIZES, learn_after=10, pretraining_updates=2500)
    schedule, due = learner.schedule, []
    assert isinstance(schedule, Pretrained)
    for step in range(1, 17):
        due.append(schedule.due(Moment(step - 1, step, 0, 0)))
        learner.updates += due[-1]
    assert due == [0] * 9 + [1000, 1000, 500, 1, 1, 1, 1]
    fresh = make_learner(BOX, **SIZES, learn_after=10, pretraining_updates=2500)
    assert fresh.schedule.due(Moment(0, 16, 0, 0)) == sum(due)


def test_windows_come_with_what_was_before_them() -> None:
    buffer = noise_buffer("Box", [12, 3], seed=1)
    sampler = Windows(40, 4, burn_in=5)
    batch = sampler.draw(buffer, np.random.default_rng(0), len)
    assert batch.steps == int(batch.mask.sum()) and "up to 5 that are only read" in str(sampler)
    ring, leads = torch.from_numpy(buffer.observations), set()
    for row in range(len(batch.mask)):
        begin = int((ring == batch.observation[row, 0]).all(1).nonzero()[0])
        length = int((~batch.is_first[row]).sum())
        assert torch.equal(batch.observation[row, : length + 1], ring[begin : begin + length + 1])
        counted = batch.mask[row].nonzero().flatten().tolist()
        assert counted == list(range(counted[0], length)) and len(counted) in (3, 4)
        if len(counted) == 4:  # of the first episode, which begins at 0: as many as there are
            assert counted[0] == min(5, begin + counted[0])
            leads.add(counted[0])
    assert leads == {0, 1, 2, 3, 4, 5}
    assert batch.padding == batch.mask.numel() - sum(int((~f).sum()) + 1 for f in batch.is_first)
    plain = Windows(40, 4).draw(buffer, np.random.default_rng(0), len)
    assert plain.steps == batch.steps, "the same windows"


def test_the_model_foretells_better_and_better() -> None:
    """Rewards follow from actions, and nothing else changes."""
    config = small_config(get_method("vrm"), 16, lr_model=1e-2, model_every=1)
    learner = get_method("vrm").learner(config, BOX, torch.device("cpu"))
    buffer, rng = noise_buffer("Box", [30] * 5), np.random.default_rng(0)
    buffer.rewards[:] = buffer.actions.sum(1)
    buffer.observations[:] = 0.5
    model = learner.networks["model"]
    assert isinstance(model, SequenceModel)
    errors = []
    for _ in range(110):
        batch = Windows(8, 5).draw(buffer, rng, learner.policy.suitable_rows)
        metrics: dict[str, Tensor] = {}
        learner._learn_model("model", batch, learner.inputs(batch)[0], metrics, True)  # type: ignore[attr-defined]
        errors.append(metrics["model_error"].item())
    unknown = buffer.rewards.var() / (BOX.observation + 1)  # what the rewards' mean would leave
    assert errors[0] > unknown and np.mean(errors[-20:]) < 0.4 * unknown


def test_settings_of_the_source() -> None:
    found = configure("AntBLT-P-v0", method="vrm").flat()
    expected = {
        **{"width": 256, "latents": 64, "model_width": 128, "head_width": 256, "head_layers": 2},
        **{"lr_policy": 3e-4, "lr_critic": 3e-4, "lr_value": 3e-4, "lr_alpha": 3e-4},
        **{"lr_first_model": 8e-4, "lr_model": 8e-4, "gamma": 0.99, "tau": 0.005},
        **{"batch_windows": 4, "context_length": 64, "burn_in": 64, "model_every": 5},
        **{"warmup_steps": 0, "learn_after": 1000, "pretraining_updates": 5000},
        **{"alpha_start": 1.0, "alpha_loss": "log", "action_penalty": 1e-3},
    }
    assert {name: found[name] for name in expected} == expected


def learned(env: Any, steps: int, **settings: Any) -> tuple[float, float]:
    """Returns before and after."""
    agent = Agent(env, "vrm", device="cpu", eval_every=0, checkpoint_every=0, **settings)
    untrained, _ = agent.evaluate(20)
    agent.learn(steps)
    trained, _ = agent.evaluate(20)
    agent.close()
    return untrained, trained


@pytest.mark.slow
def test_it_learns_where_the_sign_is_shown_once() -> None:
    """No proof of a memory: the policy reads the last reward, which can tell the sign as well."""
    settings = small_config(get_method("vrm"), 16).network
    untrained, trained = learned(
        lambda: Sign("Box", hidden=True),
        1600,
        **{name: getattr(settings, name) for name in ("width", "latents", "model_width")},
        **dict.fromkeys(("lr_policy", "lr_critic", "lr_value", "lr_model"), 3e-3),
        **{"lr_first_model": 1e-2, "lr_alpha": 1e-2, "head_width": 32, "gamma": 0.5, "tau": 0.02},
        **{"batch_windows": 16, "context_length": STEPS, "burn_in": 0, "preset": "paper"},
        **{"pretraining_updates": 60, "learn_after": 200, "max_episode_steps": STEPS},
        **{"buffer_steps": 2000},
    )
    assert trained > 3.2 > untrained


@pytest.mark.slow
def test_it_swings_up_a_pendulum_whose_angle_is_hidden() -> None:
    _, trained = learned("Pendulum-V-v0", 4000)
    assert trained > -700
