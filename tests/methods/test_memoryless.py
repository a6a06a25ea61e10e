"""Updates of methods without a memory, done again the slow way: one step, one head at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from slow_steps import BOX, DISCRETE, SlowMethod, make_batch, make_learner, steps_of
from torch import Tensor

from resel.config import Config
from resel.data import Batch
from resel.errors import ConfigError, UnsupportedSpaceError
from resel.networks import Dimensions


class SlowSAC(SlowMethod):
    """Haarnoja et al. 2018; Christodoulou 2019 for Discrete actions."""

    def value(
        self, low: Any, alpha: Tensor, observation: Tensor, noise: Tensor, critic: Any
    ) -> Any:
        """E[min Q - alpha log pi], and E[log pi]."""
        output = self.policy_output(self.networks["policy"], observation)
        if self.dims.discrete:
            log_probs = output - output.exp().sum().log()
            q = low(self.q(critic, observation, None))
            return sum(p.exp() * (q[i] - alpha * p) for i, p in enumerate(log_probs)), sum(
                p.exp() * p for p in log_probs
            )
        action, log_prob = self.sampled(output, noise)
        return low(self.q(critic, observation, action)) - alpha * log_prob, log_prob

    @staticmethod
    def smaller(heads: list[Tensor]) -> Tensor:
        found = torch.minimum(heads[0], heads[1])
        return found[0] if len(found) == 1 else found

    def taken(self, heads: list[Tensor], action: Tensor) -> list[Tensor]:
        return [h[int(action[0])] if self.dims.discrete else h[0] for h in heads]

    def update(self, batch: Batch) -> dict[str, float]:
        generator, alpha = self.generator(), self.log_alpha.detach().exp()
        steps = steps_of(batch, self.learner)
        learns = self.updates % self.settings.policy_delay == 0
        draws = not self.dims.discrete
        critic, target = self.networks["critic"], self.targets["critic"]
        none = torch.zeros(*batch.is_first.shape, self.dims.action)
        noise = self.noise(batch, generator) if draws else none
        y = []
        for s in steps:
            with torch.no_grad():
                spot = noise[s.row, s.slot + 1]
                v, _ = self.value(self.smaller, alpha, s.next_observation, spot, target)
            y.append(s.reward + (0 if s.ended else self.settings.gamma * float(v)))
        loss: Any = 0.0
        q_mean = 0.0
        for s, wanted in zip(steps, y, strict=True):
            heads = self.q(critic, s.observation, None if self.dims.discrete else s.action)
            for q in self.taken(heads, s.action):
                loss = loss + (q - wanted) ** 2
                q_mean += q.item() / 2
        self.descend("critic", loss / len(steps))
        self.follow()
        found = {"critic_loss": loss.item() / len(steps), "q_mean": q_mean / len(steps)}
        found |= {"target_mean": sum(y) / len(y), "alpha": float(alpha)}
        if learns:
            noise = self.noise(batch, generator) if draws else none
            total, log_prob = torch.zeros(2, dtype=torch.float64)
            for s in steps:
                spot = noise[s.row, s.slot]
                v, own = self.value(self.smaller, alpha, s.observation, spot, critic)
                total, log_prob = total - v, log_prob + own
            self.descend("policy", total / len(steps))
            entropy = -log_prob.detach() / len(steps)
            self.steer(entropy)
            found |= {"policy_loss": total.item() / len(steps), "entropy": float(entropy)}
        self.updates += 1
        return found


class SlowTD3(SlowMethod):
    """Fujimoto et al. 2018, with the departures of Ni et al. 2022 as settings."""

    def update(self, batch: Batch) -> dict[str, float]:
        settings, steps = self.settings, steps_of(batch, self.learner)
        noise = self.noise(batch, self.generator())
        loss: Any = 0.0
        y = []
        for s in steps:
            with torch.no_grad():
                action = torch.tanh(self.policy_output(self.targets["policy"], s.next_observation))
                jitter = settings.target_noise * noise[s.row, s.slot + 1]
                jitter = jitter.clamp(-settings.target_noise_clip, settings.target_noise_clip)
                action = (action + jitter).clamp(-1, 1)
                q1, q2 = self.q(self.targets["critic"], s.next_observation, action)
            y.append(s.reward + (0 if s.ended else settings.gamma * min(q1.item(), q2.item())))
            for q_e in self.q(self.networks["critic"], s.observation, s.action):
                loss = loss + (q_e[0] - y[-1]) ** 2
        self.descend("critic", loss / len(steps))
        found = {"critic_loss": loss.item() / len(steps), "target_mean": sum(y) / len(y)}
        self.updates += 1
        if self.updates % settings.policy_delay == 0:
            total: Any = 0.0
            for s in steps:
                action = torch.tanh(self.policy_output(self.networks["policy"], s.observation))
                q1, q2 = self.q(self.networks["critic"], s.observation, action)
                total = total - (q1 if settings.policy_loss == "q1" else torch.minimum(q1, q2))[0]
            self.descend("policy", total / len(steps))
            self.follow()
            found["policy_loss"] = total.item() / len(steps)
        return found


class SlowTQC(SlowMethod):
    """Kuznetsov et al. 2020."""

    def update(self, batch: Batch) -> dict[str, float]:
        settings, steps = self.settings, steps_of(batch, self.learner)
        generator, alpha = self.generator(), self.log_alpha.detach().exp()
        policy, critic = self.networks["policy"], self.networks["critic"]
        kept = settings.n_critics * (settings.quantiles - settings.dropped_quantiles)
        noise = self.noise(batch, generator)
        loss: Any = 0.0
        pairs = 0
        for s in steps:
            with torch.no_grad():
                output = self.policy_output(policy, s.next_observation)
                action, log_prob = self.sampled(output, noise[s.row, s.slot + 1])
                atoms = self.q(self.targets["critic"], s.next_observation, action)
                smallest = sorted(z.item() for head in atoms for z in head)[:kept]
                tail = 0 if s.ended else settings.gamma
                y = [s.reward + tail * (z - float(alpha * log_prob)) for z in smallest]
            for head in self.q(critic, s.observation, s.action):
                for j, z in enumerate(head):
                    for wanted in y:
                        u = wanted - z
                        huber = 0.5 * u**2 if abs(u.item()) <= 1 else u.abs() - 0.5
                        level = (j + 0.5) / settings.quantiles
                        loss = loss + abs(level - (1 if u < 0 else 0)) * huber
                        pairs += 1
        self.descend("critic", loss / pairs)
        self.follow()
        noise = self.noise(batch, generator)
        total, log_probs = torch.zeros(2, dtype=torch.float64)
        for s in steps:
            output = self.policy_output(policy, s.observation)
            action, log_prob = self.sampled(output, noise[s.row, s.slot])
            q = torch.stack(self.q(critic, s.observation, action)).mean()
            total, log_probs = total + alpha * log_prob - q, log_probs + log_prob
        self.descend("policy", total / len(steps))
        entropy = -log_probs.detach() / len(steps)
        self.steer(entropy)
        return {
            "critic_loss": loss.item() / pairs,
            "policy_loss": total.item() / len(steps),
            "entropy": float(entropy),
            "alpha": float(alpha),
        }


ESCP = {
    "last_width": 5,
    "activation": "leaky_relu",
    "log_std_min": -0.1,
    "alpha_loss": "exp",
    "alpha_start": 0.2,
    "alpha_max": 0.201,
    "target_entropy_scale": -1.5,  # out of reach, so that alpha meets its bound
    "normalize_observations": True,
}
NI = {"policy_delay": 1, "policy_loss": "min", "initialisation": "fan_out"}
TQC = {"n_critics": 2, "quantiles": 3, "dropped_quantiles": 1, "critic_layers": 3}


@pytest.mark.parametrize("packed", [False, True], ids=["transitions", "packed"])
@pytest.mark.parametrize(
    ("slow", "method", "dims", "changes"),
    [
        (SlowSAC, "sac", BOX, {}),
        (SlowSAC, "sac", BOX, {"policy_delay": 2}),
        (SlowSAC, "sac", DISCRETE, {}),
        (SlowSAC, "sac-mlp", BOX, ESCP),
        (SlowSAC, "sac-mlp", DISCRETE, {"alpha_loss": "exp", "initialisation": "fan_out"}),
        (SlowTD3, "td3", BOX, {}),
        (SlowTD3, "td3-mlp", BOX, NI),
        (SlowTQC, "tqc", BOX, TQC),
    ],
)
def test_updates_are_the_formulas(
    slow: type[Any], method: str, dims: Dimensions, changes: dict[str, Any], packed: bool
) -> None:
    learner = make_learner(dims, method=method, **changes)
    learner.normalizer.update(np.random.default_rng(5).normal(1, 3, (50, 3)).astype(np.float32))
    reference = slow(learner)
    for number in range(4):
        batch = make_batch(dims, number, packed)
        expected = reference.update(batch)
        metrics = learner.update(batch, want_metrics=True)
        assert ("policy_loss" in metrics) == ("policy_loss" in expected)
        for name, value in expected.items():
            assert metrics[name].item() == pytest.approx(value, rel=1e-9, abs=1e-11), name
        reference.check()


@pytest.mark.parametrize("method", ["sac", "td3", "tqc"])
def test_learning_goes_on_where_it_was(method: str) -> None:
    old, new = make_learner(BOX, method=method), make_learner(BOX, method=method, seed=2)
    for number in range(3):
        old.update(make_batch(BOX, number, packed=False))
    new.load_weights({name: tensor.clone() for name, tensor in old.weights().items()})
    tensors, document = old.state()
    new.restore({name: tensor.clone() for name, tensor in tensors.items()}, document)
    for learner in (old, new):
        for number in range(3, 5):
            learner.update(make_batch(BOX, number, packed=False))
    assert all(torch.equal(tensor, new.weights()[name]) for name, tensor in old.weights().items())


@pytest.mark.parametrize("method", ["td3", "td3-mlp", "td3-ofe", "td7", "tqc"])
def test_methods_for_box_actions_refuse_others(method: str) -> None:
    with pytest.raises(UnsupportedSpaceError, match="sac"):
        make_learner(DISCRETE, method=method)


def test_all_quantiles_cannot_be_dropped() -> None:
    with pytest.raises(ConfigError, match="dropped_quantiles=25 leaves none"):
        Config.build("", {"method": "tqc", "dropped_quantiles": 25})
