"""Recurrent SAC and TD3: whole updates done again the slow way, one window and one step at a time.

Nothing of the networks is used here but their weights; the GRU is written out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, TanhTransform

from resel.agent import configure
from resel.config import Config
from resel.data import Batch, ReplayBuffer, Trajectory, Windows
from resel.errors import UnsupportedSpaceError
from resel.methods import Learner, build_learner, get_method
from resel.networks import Dimensions
from resel.tasks import all_tasks, get_task

BOX = Dimensions(3, 2, discrete=False)
DISCRETE = Dimensions(3, 4, discrete=True)
METHODS = ["sac-gru", "mf-rnn"]
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
    dims, rng = learner.dims, np.random.default_rng(seed)
    buffer = ReplayBuffer(200, dims.observation, 1 if dims.discrete else dims.action)
    for number, length in enumerate([9, 3, 6, 1]):
        action = (
            rng.integers(dims.action, size=(length, 1))
            if dims.discrete
            else rng.uniform(-1, 1, (length, dims.action))
        )
        observations = rng.normal(size=(length + 1, dims.observation)).astype(np.float32)
        rewards = rng.normal(size=length).astype(np.float32)
        ended = number % 2 == 0
        buffer.add(Trajectory(observations, action.astype(np.float32), rewards, terminated=ended))
    batch = learner.sampler.draw(buffer, rng, lambda lengths: 2)
    floats = ("observation", "action", "reward", "terminated")
    return dataclasses.replace(batch, **{name: getattr(batch, name).double() for name in floats})


@dataclass
class Window:
    """One piece of an episode, read off the batch."""

    observations: Tensor  # (L + 1, O)
    actions: Tensor  # (L, A), Discrete ones as one-hot
    rewards: Tensor  # (L,)
    terminated: Tensor  # (L,)
    row: int
    begin: int

    @property
    def steps(self) -> range:
        return range(len(self.rewards))


def windows_of(batch: Batch, dims: Dimensions) -> list[Window]:
    found = []
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
            )
        )
    assert sum(len(w.rewards) for w in found) == batch.steps
    return found


def layer(weights: Weights, name: str, x: Tensor) -> Tensor:
    return weights[f"{name}.weight"] @ x + weights[f"{name}.bias"]


def contexts(weights: Weights, trunk: str, window: Window) -> list[Tensor]:
    """The GRU's output at o_0 .. o_L, from nothing: no memory, no last action, no last reward."""
    gru = f"{trunk}.context_encoder.rnn.layers"
    h = torch.zeros(weights[f"{gru}.weight_hh_l0"].shape[1], dtype=torch.float64)
    found = []
    for t, observation in enumerate(window.observations):
        inputs = [
            observation,
            window.actions[t - 1] if t else torch.zeros_like(window.actions[0]),
            window.rewards[t - 1 : t] if t else torch.zeros(1, dtype=torch.float64),
        ]
        x = torch.cat(
            [
                torch.relu(layer(weights, f"{trunk}.embeddings.{i}.linear", value))
                for i, value in enumerate(inputs)
                if f"{trunk}.embeddings.{i}.linear.weight" in weights
            ]
        )
        from_input = weights[f"{gru}.weight_ih_l0"] @ x + weights[f"{gru}.bias_ih_l0"]
        from_memory = weights[f"{gru}.weight_hh_l0"] @ h + weights[f"{gru}.bias_hh_l0"]
        (r_x, z_x, n_x), (r_h, z_h, n_h) = from_input.chunk(3), from_memory.chunk(3)
        reset, keep = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
        h = (1 - keep) * torch.tanh(n_x + reset * n_h) + keep * h
        found.append(h)
    return found


def policy_outputs(weights: Weights, window: Window) -> list[Tensor]:
    """The head's output at o_0 .. o_L."""
    found = []
    for context, observation in zip(
        contexts(weights, "trunk", window), window.observations, strict=True
    ):
        x = torch.cat([context, torch.relu(layer(weights, "shortcut.linear", observation))])
        for number in (0, 2):
            x = torch.relu(layer(weights, f"head.{number}", x))
        found.append(layer(weights, "head.4", x))
    return found


def q_values(
    weights: Weights, window: Window, action_at: Callable[[int], Tensor | None], steps: range
) -> list[list[Tensor]]:
    """For each step the value of each of the two critics: a number, or one for every action."""
    branches = sum(f"shortcuts.{i}.linear.weight" in weights for i in range(2))
    memory = [contexts(weights, f"trunks.{i}", window) for i in range(branches)]
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


class SlowLearner:
    """Starts from the weights of a learner; `update` comes before the learner's own."""

    def __init__(self, learner: Learner) -> None:
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
            q = q_values(self.nets["critic"], window, self.taken(window), window.steps)
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
            actions = [torch.tanh(x) for x in policy_outputs(self.nets["policy"], window)]
            for q in q_values(frozen, window, lambda t, a=actions: a[t], window.steps):
                loss = loss - torch.minimum(*q)
        self.descend("policy", loss / batch.steps)
        self.follow("policy")
        self.follow("critic")

    def next_values(self, window: Window, noise: Tensor) -> list[Tensor]:
        outputs = policy_outputs(self.targets["policy"], window)

        def smoothed(t: int) -> Tensor:
            around = 0.2 * noise[window.row, window.begin + t]
            return torch.clamp(torch.tanh(outputs[t]) + torch.clamp(around, -0.5, 0.5), -1, 1)

        moments = range(1, len(window.rewards) + 1)
        return [
            torch.minimum(*q) for q in q_values(self.targets["critic"], window, smoothed, moments)
        ]


class SlowSAC(SlowLearner):
    """Critics, soft target update, policy, temperature through exp."""

    def __init__(self, learner: Learner) -> None:
        super().__init__(learner)
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
            q = q_values(critic, window, lambda t: None, steps)
            values = [
                (logs[t].exp() * (torch.minimum(*both) - alpha * logs[t])).sum()
                for t, both in zip(steps, q, strict=True)
            ]
            return values, [-(logs[t].exp() * logs[t]).sum() for t in steps]
        draws = {t: self.drawn(outputs[t], noise[window.row, window.begin + t]) for t in steps}
        q = q_values(critic, window, lambda t: draws[t][0], steps)
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
                outputs = policy_outputs(self.nets["policy"], window)
                moments = range(1, len(window.rewards) + 1)
                target = self.targets["critic"]
                next_values.append(self.soft_values(target, outputs, window, first, moments)[0])
        self.descend_critic(windows, next_values)
        self.follow("critic")
        loss, entropy = torch.zeros(2, dtype=torch.float64)
        for window in windows:
            outputs = policy_outputs(self.nets["policy"], window)
            both = self.soft_values(self.nets["critic"], outputs, window, second, window.steps)
            loss, entropy = loss - sum(both[0]), entropy + sum(both[1])
        self.descend("policy", loss / batch.steps)
        excess = entropy.detach() / batch.steps - self.target_entropy
        self.alpha_adam.zero_grad()
        (self.log_alpha.exp() * excess).backward()
        self.alpha_adam.step()

    def assert_equals(self) -> None:
        super().assert_equals()
        assert self.learner.temperature is not None
        found = self.learner.temperature.log_alpha.detach()
        torch.testing.assert_close(found, self.log_alpha.detach(), rtol=1e-7, atol=1e-9)


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
    slow = SLOW[method](learner)
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
    assert config.network.reward_embedding == {"mf-rnn": 0, "sac-gru": 4}[method]
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
