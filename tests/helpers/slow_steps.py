"""For updates done again the slow way: batches, single steps, copies of a learner's networks."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, NamedTuple

import numpy as np
import torch
from method_cases import noise_buffer
from torch import Tensor, nn
from torch.distributions import Normal, TanhTransform

from resel.config import Config
from resel.data import Batch, Transitions, pack
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
    buffer = noise_buffer("Discrete" if dims.discrete else "Box", [5, 1, 8, 3], seed)
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
