"""Recurrent SAC and TD3 the slow way: whole updates, one window and one step at a time.

Nothing of the networks is used here but their weights. What a test has to add is the encoder: a
function that writes out the contexts of a window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from method_cases import noise_episodes, of_dtype
from torch import Tensor
from torch.distributions import Normal, TanhTransform

from resel.config import Config
from resel.data import Batch
from resel.methods import Learner, build_learner
from resel.networks import Dimensions

BOX = Dimensions(3, 2, discrete=False)
DISCRETE = Dimensions(3, 4, discrete=True)
SMALL: dict[str, Any] = {
    "observation_embedding": 4,
    "action_embedding": 3,
    "width": 5,
    "policy_shortcut": 4,
    "critic_shortcut": 6,
    "head_width": 7,
    "lr_policy": 3e-3,
    "lr_critic": 1e-2,
    "lr_alpha": 5e-3,
    "tau": 0.1,
    "device": "cpu",
}

Weights = Mapping[str, Tensor]


def make_learner(method: str, dims: Dimensions, **changes: Any) -> Learner:
    """A learner in float64 whose weights are large enough to show every fault."""
    config = Config.build("", {"method": method}, SMALL, changes)
    learner = build_learner(config, dims, torch.device("cpu"), torch.float64)
    rng = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, network in learner.networks.items():
            for parameter in network.parameters():
                parameter += 0.3 * torch.randn(parameter.shape, generator=rng, dtype=torch.float64)
            if name in learner.targets:
                learner.targets[name].load_state_dict(network.state_dict())
                for parameter in learner.targets[name].parameters():
                    parameter *= 0.9
    return learner


def make_batch(learner: Learner, seed: int) -> Batch:
    """The learner's own windows out of episodes of noise, some shorter than a window."""
    rng = np.random.default_rng(seed)
    buffer = noise_episodes(learner.dims, [9, 3, 6, 1], rng)
    return of_dtype(learner.sampler.draw(buffer, rng, lambda lengths: 2), torch.float64)


@dataclass
class Window:
    """One piece of an episode, read off the batch."""

    observations: Tensor  # (L + 1, O)
    actions: Tensor  # (L, A), Discrete ones as one-hot
    rewards: Tensor  # (L,)
    terminated: Tensor  # (L,)
    row: int
    begin: int
    batch: list[Window]
    """All of them, itself included."""

    @property
    def steps(self) -> range:
        return range(len(self.rewards))


def windows_of(batch: Batch, dims: Dimensions) -> list[Window]:
    found: list[Window] = []
    for row, begin in (batch.is_first & batch.mask).nonzero().tolist():
        end = begin
        while batch.mask[row, end]:
            end += 1
        actions = batch.action[row, begin:end]
        if dims.discrete:
            actions = torch.eye(dims.action, dtype=torch.float64)[actions[:, 0].long()]
        taken = slice(begin, end)
        found.append(
            Window(
                batch.observation[row, begin : end + 1],
                actions,
                batch.reward[row, taken],
                batch.terminated[row, taken],
                row,
                begin,
                found,
            )
        )
    assert sum(len(w.rewards) for w in found) == batch.steps
    return found


def layer(weights: Weights, name: str, x: Tensor) -> Tensor:
    return weights[f"{name}.weight"] @ x + weights[f"{name}.bias"]


def gru_step(weights: Weights, name: str, x: Tensor, h: Tensor) -> Tensor:
    """The memory after an input."""
    from_input = weights[f"{name}.weight_ih_l0"] @ x + weights[f"{name}.bias_ih_l0"]
    from_memory = weights[f"{name}.weight_hh_l0"] @ h + weights[f"{name}.bias_hh_l0"]
    (r_x, z_x, n_x), (r_h, z_h, n_h) = from_input.chunk(3), from_memory.chunk(3)
    reset, keep = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
    return (1 - keep) * torch.tanh(n_x + reset * n_h) + keep * h


Contexts = Callable[[Weights, str, Window], list[Tensor]]
"""From the weights of a network and the name of its trunk to the contexts at o_0 .. o_L."""


def gru(weights: Weights, name: str, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The outputs of a GRU, from nothing."""
    h = torch.zeros(weights[f"{name}.weight_hh_l0"].shape[1], dtype=torch.float64)
    found = []
    for x in inputs:
        from_input = weights[f"{name}.weight_ih_l0"] @ x + weights[f"{name}.bias_ih_l0"]
        from_memory = weights[f"{name}.weight_hh_l0"] @ h + weights[f"{name}.bias_hh_l0"]
        (r_x, z_x, n_x), (r_h, z_h, n_h) = from_input.chunk(3), from_memory.chunk(3)
        reset, keep = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
        h = (1 - keep) * torch.tanh(n_x + reset * n_h) + keep * h
        found.append(h)
    return found


def embedded(weights: Weights, names: Sequence[str], window: Window) -> list[Tensor]:
    """Layers with ReLU of o_t, a_{t-1} and r_{t-1}, as far as there are such layers."""
    found = []
    for t, observation in enumerate(window.observations):
        inputs = [
            observation,
            window.actions[t - 1] if t else torch.zeros_like(window.actions[0]),
            window.rewards[t - 1 : t] if t else torch.zeros(1, dtype=torch.float64),
        ]
        pairs = [
            (name, x) for name, x in zip(names, inputs, strict=True) if f"{name}.weight" in weights
        ]
        found.append(torch.cat([torch.relu(layer(weights, name, x)) for name, x in pairs]))
    return found


def contexts(weights: Weights, trunk: str, window: Window) -> list[Tensor]:
    """The GRU's output at o_0 .. o_L, from nothing: no memory, no last action, no last reward."""
    names = [f"{trunk}.embeddings.{i}.linear" for i in range(3)]
    inputs = embedded(weights, names, window)
    return gru(weights, f"{trunk}.context_encoder.rnn.layers", inputs)


class SlowLearner:
    """Starts from the weights of a learner; `update` comes before the learner's own."""

    def __init__(self, learner: Learner, contexts: Contexts) -> None:
        self.contexts = contexts
        self.learner, self.settings, self.dims = learner, learner.settings, learner.dims
        self.nets = {
            name: {k: v.detach().clone().requires_grad_() for k, v in net.named_parameters()}
            for name, net in learner.networks.items()
        }
        self.targets = {
            name: {k: v.detach().clone() for k, v in net.named_parameters()}
            for name, net in learner.targets.items()
        }
        self.adams = {name: self.adam(name) for name in self.nets}

    def policy_outputs(self, weights: Weights, window: Window) -> list[Tensor]:
        """The head's output at o_0 .. o_L."""
        found = []
        for context, observation in zip(
            self.contexts(weights, "trunk", window), window.observations, strict=True
        ):
            x = torch.cat([context, torch.relu(layer(weights, "shortcut.linear", observation))])
            for number in (0, 2):
                x = torch.relu(layer(weights, f"head.{number}", x))
            found.append(layer(weights, "head.4", x))
        return found

    def q_values(
        self,
        weights: Weights,
        window: Window,
        action_at: Callable[[int], Tensor | None],
        steps: range,
    ) -> list[list[Tensor]]:
        """For each step the value of each of the two critics: a number, or one for every action."""
        branches = sum(f"shortcuts.{i}.linear.weight" in weights for i in range(2))
        memory = [self.contexts(weights, f"trunks.{i}", window) for i in range(branches)]
        found: list[list[Tensor]] = []
        for t in steps:
            action = action_at(t)
            now = window.observations[t]
            now = now if action is None else torch.cat([now, action])
            values = []
            for head in range(2):
                branch = head % branches
                x = torch.relu(layer(weights, f"shortcuts.{branch}.linear", now))
                x = torch.cat([memory[branch][t], x])
                for number in range(3):
                    x = weights[f"heads.weights.{number}"][head] @ x
                    x = x + weights[f"heads.biases.{number}"][head]
                    x = torch.relu(x) if number < 2 else x
                values.append(x if action is None else x[0])
            found.append(values)
        return found

    def adam(self, name: str) -> torch.optim.Optimizer:
        rate = getattr(self.settings, f"lr_{name}")
        own = self.settings.lr_context_encoder
        inside = [p for k, p in self.nets[name].items() if ".context_encoder." in k]
        outside = [p for k, p in self.nets[name].items() if ".context_encoder." not in k]
        return torch.optim.Adam(
            [
                {"params": inside, "lr": rate if own is None else own},
                {"params": outside, "lr": rate},
            ]
        )

    def descend(self, name: str, loss: Tensor) -> None:
        self.adams[name].zero_grad()
        loss.backward()
        self.adams[name].step()

    def follow(self, name: str) -> None:
        tau = self.settings.tau
        with torch.no_grad():
            for key, slow in self.targets[name].items():
                slow.copy_((1 - tau) * slow + tau * self.nets[name][key])

    def taken(self, window: Window) -> Callable[[int], Tensor | None]:
        return lambda t: None if self.dims.discrete else window.actions[t]

    def descend_critic(self, windows: list[Window], next_values: list[list[Tensor]]) -> None:
        """Squared error of both heads to r + gamma (1 - terminated) V, a mean over all steps."""
        loss, count = torch.zeros((), dtype=torch.float64), 0
        for window, values in zip(windows, next_values, strict=True):
            q = self.q_values(self.nets["critic"], window, self.taken(window), window.steps)
            for t in window.steps:
                going_on = self.settings.gamma * (1 - window.terminated[t])
                y = window.rewards[t] + going_on * values[t]
                for value in q[t]:
                    chosen = (value * window.actions[t]).sum() if self.dims.discrete else value
                    loss = loss + (chosen - y) ** 2
                count += 1
        self.descend("critic", loss / count)

    def assert_equals(self) -> None:
        for networks, wanted in (
            (self.learner.networks, self.nets),
            (self.learner.targets, self.targets),
        ):
            for name, parameters in wanted.items():
                found = dict(networks[name].named_parameters())
                assert found.keys() == parameters.keys()
                for key, value in parameters.items():
                    torch.testing.assert_close(
                        found[key].detach(),
                        value.detach(),
                        rtol=1e-7,
                        atol=1e-9,
                        msg=f"{name} {key}",
                    )

    def noise(self, batch: Batch, source: torch.Generator) -> Tensor:
        shape = (*batch.is_first.shape, self.dims.action)
        return torch.randn(shape, generator=source, dtype=torch.float64)

    def noise_source(self) -> torch.Generator:
        return torch.Generator().set_state(self.learner.generators["noise"].get_state())


class SlowTD3(SlowLearner):
    """Critics, policy by the smaller critic, both targets, at every update."""

    def update(self, batch: Batch) -> None:
        noise = self.noise(batch, self.noise_source())
        windows = windows_of(batch, self.dims)
        with torch.no_grad():
            next_values = [self.next_values(window, noise) for window in windows]
        self.descend_critic(windows, next_values)
        loss, frozen = torch.zeros((), dtype=torch.float64), self.nets["critic"]
        for window in windows:
            actions = [torch.tanh(x) for x in self.policy_outputs(self.nets["policy"], window)]
            for q in self.q_values(frozen, window, lambda t, a=actions: a[t], window.steps):
                loss = loss - torch.minimum(*q)
        self.descend("policy", loss / batch.steps)
        self.follow("policy")
        self.follow("critic")

    def next_values(self, window: Window, noise: Tensor) -> list[Tensor]:
        outputs = self.policy_outputs(self.targets["policy"], window)

        def smoothed(t: int) -> Tensor:
            around = 0.2 * noise[window.row, window.begin + t]
            return torch.clamp(torch.tanh(outputs[t]) + torch.clamp(around, -0.5, 0.5), -1, 1)

        moments = range(1, len(window.rewards) + 1)
        return [
            torch.minimum(*q)
            for q in self.q_values(self.targets["critic"], window, smoothed, moments)
        ]


class SlowSAC(SlowLearner):
    """Critics, soft target update, policy, temperature through exp."""

    def __init__(self, learner: Learner, contexts: Contexts) -> None:
        super().__init__(learner, contexts)
        assert learner.temperature is not None
        self.log_alpha = learner.temperature.log_alpha.detach().clone().requires_grad_()
        self.alpha_adam = torch.optim.Adam([self.log_alpha], lr=self.settings.lr_alpha)
        actions = self.dims.action
        self.target_entropy = 0.2 * np.log(actions) if self.dims.discrete else -1.0 * actions

    def drawn(self, output: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """An action and its log density."""
        log_std, mean = output.chunk(2)
        std = log_std.clamp(-20, 2).exp()
        raw = mean + std * noise
        slope = TanhTransform().log_abs_det_jacobian(raw, torch.tanh(raw))
        return torch.tanh(raw), (Normal(mean, std).log_prob(raw) - slope).sum()

    def soft_values(
        self, critic: Weights, outputs: list[Tensor], window: Window, noise: Tensor, steps: range
    ) -> tuple[list[Tensor], list[Tensor]]:
        """min Q - alpha log pi in expectation, and the entropy, at each of the steps."""
        alpha = self.log_alpha.detach().exp()
        if self.dims.discrete:
            logs = {t: torch.log_softmax(outputs[t], 0) for t in steps}
            q = self.q_values(critic, window, lambda t: None, steps)
            values = [
                (logs[t].exp() * (torch.minimum(*both) - alpha * logs[t])).sum()
                for t, both in zip(steps, q, strict=True)
            ]
            return values, [-(logs[t].exp() * logs[t]).sum() for t in steps]
        draws = {t: self.drawn(outputs[t], noise[window.row, window.begin + t]) for t in steps}
        q = self.q_values(critic, window, lambda t: draws[t][0], steps)
        values = [
            torch.minimum(*both) - alpha * draws[t][1] for t, both in zip(steps, q, strict=True)
        ]
        return values, [-draws[t][1] for t in steps]

    def update(self, batch: Batch) -> None:
        source = self.noise_source()
        first, second = (self.noise(batch, source) for _ in range(2))
        windows = windows_of(batch, self.dims)
        next_values = []
        with torch.no_grad():
            for window in windows:
                outputs = self.policy_outputs(self.nets["policy"], window)
                moments = range(1, len(window.rewards) + 1)
                target = self.targets["critic"]
                next_values.append(self.soft_values(target, outputs, window, first, moments)[0])
        self.descend_critic(windows, next_values)
        self.follow("critic")
        loss, entropy = torch.zeros(2, dtype=torch.float64)
        for window in windows:
            outputs = self.policy_outputs(self.nets["policy"], window)
            both = self.soft_values(self.nets["critic"], outputs, window, second, window.steps)
            loss, entropy = loss - sum(both[0]), entropy + sum(both[1])
        self.descend("policy", loss / batch.steps + self.auxiliary(batch, windows))
        self.steer(entropy / batch.steps)

    def auxiliary(self, batch: Batch, windows: list[Window]) -> Tensor | float:
        """What the policy's step descends on besides."""
        return 0.0

    def steer(self, entropy: Tensor) -> None:
        """The step of the temperature."""
        excess = entropy.detach() - self.target_entropy
        self.alpha_adam.zero_grad()
        (self.log_alpha.exp() * excess).backward()
        self.alpha_adam.step()

    def assert_equals(self) -> None:
        super().assert_equals()
        assert self.learner.temperature is not None
        found = self.learner.temperature.log_alpha.detach()
        torch.testing.assert_close(found, self.log_alpha.detach(), rtol=1e-7, atol=1e-9)
