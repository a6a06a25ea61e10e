"""Updates of methods without a memory, done again the slow way: one step, one head at a time."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal, TanhTransform

from resel.config import Config
from resel.data import Batch, ReplayBuffer, Trajectory, Transitions, pack
from resel.errors import ConfigError, UnsupportedSpaceError
from resel.methods import Learner, build_learner
from resel.networks import Dimensions

BOX = Dimensions(3, 2, discrete=False)
DISCRETE = Dimensions(3, 4, discrete=True)
SMALL: dict[str, Any] = {
    "head_width": 7,
    "critic_width": 6,
    "lr_policy": 3e-3,
    "lr_critic": 1e-2,
    "lr_alpha": 5e-3,
    "gamma": 0.9,
    "tau": 0.1,
    "reward_scale": 0.5,
    "device": "cpu",
}


def make_learner(dims: Dimensions, **changes: Any) -> Learner:
    """A learner in float64, so that nothing hides behind rounding."""
    return build_learner(Config.build("", SMALL, changes), dims, torch.device("cpu"), torch.float64)


def make_batch(dims: Dimensions, seed: int, packed: bool) -> Batch:
    """Single transitions, or whole episodes on two rows with padding; every second one ends."""
    rng = np.random.default_rng(seed)
    buffer = ReplayBuffer(200, dims.observation, 1 if dims.discrete else dims.action)
    for number, length in enumerate([5, 1, 8, 3]):
        action = (
            rng.integers(dims.action, size=(length, 1))
            if dims.discrete
            else rng.uniform(-1, 1, (length, dims.action))
        )
        buffer.add(
            Trajectory(
                rng.normal(size=(length + 1, dims.observation)).astype(np.float32),
                action.astype(np.float32),
                rng.normal(size=length).astype(np.float32),
                terminated=number % 2 == 0,
            )
        )
    batch = pack(buffer, list(buffer), 2) if packed else Transitions(12).draw(buffer, rng, len)
    floats = ("observation", "action", "reward", "terminated")
    return dataclasses.replace(batch, **{name: getattr(batch, name).double() for name in floats})


class Step(NamedTuple):
    """One transition and where it stands."""

    observation: Tensor
    action: Tensor
    reward: float
    ended: bool
    next_observation: Tensor
    row: int
    slot: int


def steps_of(batch: Batch, learner: Learner) -> list[Step]:
    seen = batch.observation
    if learner.normalizer.enabled:
        statistics = learner.normalizer
        seen = ((seen - statistics.mean) / (statistics.deviation + 1e-6)).clamp(-10, 10)
    scale = learner.config.algorithm.reward_scale
    return [
        Step(
            seen[r, t],
            batch.action[r, t],
            scale * float(batch.reward[r, t]),
            bool(batch.terminated[r, t]),
            seen[r, t + 1],
            r,
            t,
        )
        for r, t in batch.mask.nonzero().tolist()
    ]


class SlowMethod:
    """Copies of a learner's networks, their own optimisers, and plain formulas."""

    def __init__(self, learner: Learner) -> None:
        self.learner, self.settings, self.dims = learner, learner.config.algorithm, learner.dims
        self.networks = {name: copy.deepcopy(n) for name, n in learner.networks.items()}
        self.targets = {name: copy.deepcopy(n) for name, n in learner.targets.items()}
        self.adams = {
            name: torch.optim.Adam(n.parameters(), getattr(self.settings, f"lr_{name}"))
            for name, n in self.networks.items()
        }
        if learner.temperature is not None:
            self.log_alpha = learner.temperature.log_alpha.detach().clone().requires_grad_()
            self.alpha_adam = torch.optim.Adam([self.log_alpha], self.settings.lr_alpha)
        self.updates = 0

    def activate(self, x: Tensor) -> Tensor:
        slope = 0.01 if self.learner.config.network.activation == "leaky_relu" else 0.0
        return torch.where(x > 0, x, slope * x)

    def policy_output(self, policy: Any, observation: Tensor) -> Tensor:
        layers = [layer for layer in policy.head if isinstance(layer, nn.Linear)]
        x = observation
        for layer in layers[:-1]:
            x = self.activate(layer.weight @ x + layer.bias)
        return layers[-1].weight @ x + layers[-1].bias

    def q(self, critic: Any, observation: Tensor, action: Tensor | None) -> list[Tensor]:
        """The output of each head: (1,) or all quantiles for Box, one per action for Discrete."""
        found = []
        for e in range(critic.heads.weights[0].shape[0]):
            x = observation if action is None else torch.cat([observation, action])
            last = len(critic.heads.weights) - 1
            for i in range(last + 1):
                x = critic.heads.weights[i][e] @ x + critic.heads.biases[i][e]
                x = x if i == last else self.activate(x)
            found.append(x)
        return found

    def noise(self, batch: Batch, generator: torch.Generator) -> Tensor:
        shape = (*batch.is_first.shape, self.dims.action)
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    def sampled(self, output: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        log_std, mean = output[: self.dims.action], output[self.dims.action :]
        std = log_std.clamp(self.learner.config.network.log_std_min, 2).exp()
        raw = mean + std * noise
        action = torch.tanh(raw)
        slope = TanhTransform().log_abs_det_jacobian(raw, action)
        return action, (Normal(mean, std).log_prob(raw) - slope).sum()

    def descend(self, name: str, loss: Tensor) -> None:
        self.adams[name].zero_grad()
        loss.backward()
        self.adams[name].step()

    def follow(self) -> None:
        with torch.no_grad():
            for name, target in self.targets.items():
                pairs = zip(target.parameters(), self.networks[name].parameters(), strict=True)
                for old, new in pairs:
                    old.copy_((1 - self.settings.tau) * old + self.settings.tau * new)

    def steer(self, entropy: Tensor) -> None:
        scale = self.settings.target_entropy_scale
        wanted = -(1.0 if scale is None else scale) * self.dims.action
        if self.dims.discrete:
            wanted = (0.2 if scale is None else scale) * float(np.log(self.dims.action))
        factor = self.log_alpha.exp() if self.settings.alpha_loss == "exp" else self.log_alpha
        self.alpha_adam.zero_grad()
        (factor * (entropy - wanted)).backward()
        self.alpha_adam.step()
        if self.settings.alpha_max is not None:
            with torch.no_grad():
                self.log_alpha.clamp_(max=float(np.log(self.settings.alpha_max)))

    def generator(self) -> torch.Generator:
        state = self.learner.generators["noise"].get_state()
        return torch.Generator().set_state(state)

    def check(self) -> None:
        """All weights are those of the learner."""
        pairs = [(self.networks[n], self.learner.networks[n]) for n in self.networks]
        pairs += [(self.targets[n], self.learner.targets[n]) for n in self.targets]
        for mine, other in pairs:
            for name, tensor in mine.state_dict().items():
                torch.testing.assert_close(other.state_dict()[name], tensor, rtol=1e-9, atol=1e-11)
        if self.learner.temperature is not None:
            theirs = self.learner.temperature.log_alpha.detach()
            torch.testing.assert_close(theirs, self.log_alpha.detach(), rtol=1e-9, atol=1e-12)


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


@pytest.mark.parametrize("method", ["td3", "td3-mlp", "tqc"])
def test_methods_for_box_actions_refuse_others(method: str) -> None:
    with pytest.raises(UnsupportedSpaceError, match="sac"):
        make_learner(DISCRETE, method=method)


def test_all_quantiles_cannot_be_dropped() -> None:
    with pytest.raises(ConfigError, match="dropped_quantiles=25 leaves none"):
        Config.build("", {"method": "tqc", "dropped_quantiles": 25})
