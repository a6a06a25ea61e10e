"""Whole updates, done again the slow way: one trajectory, one step and one head at a time."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from method_cases import noise_episodes, of_dtype
from torch import Tensor, nn
from torch.distributions import Normal, TanhTransform
from torch.nn import functional as F

from resel.config import Config
from resel.data import Batch, pack
from resel.methods import build_learner
from resel.networks import Categorical, ContextCritic, ContextInputs, ContextPolicy, Dimensions

BOX = Dimensions(3, 2, discrete=False)
DISCRETE = Dimensions(3, 4, discrete=True)
SMALL: dict[str, Any] = {
    "width": 6,
    "embedding": 4,
    "head_width": 5,
    "state_size": 2,
    "conv_kernel": 3,
    "n_critics": 4,
    "lr_context_encoder": 1e-4,
    "lr_policy": 3e-3,
    "lr_critic": 1e-2,
    "lr_alpha": 5e-3,
    "device": "cpu",
}


def make_learner(dims: Dimensions, **changes: Any) -> Any:
    """A learner in float64, so that nothing hides behind rounding."""
    return build_learner(Config.build("", SMALL, changes), dims, torch.device("cpu"), torch.float64)


def make_batch(dims: Dimensions, lengths: list[int], seed: int, rows: int = 1) -> Batch:
    """Episodes of noise in float64, every second one terminated."""
    buffer = noise_episodes(dims, lengths, np.random.default_rng(seed))
    return of_dtype(pack(buffer, list(buffer), rows), torch.float64)


@dataclass
class Episode:
    """One trajectory read off a packed sequence."""

    observations: Tensor  # (L + 1, O)
    actions: Tensor  # (L, A), Discrete ones as one-hot
    rewards: Tensor  # (L,)
    terminated: bool
    row: int
    begin: int

    def inputs(self, t: int) -> ContextInputs:
        """o_t, o_{t-1}, a_{t-1}, r_{t-1}, with zeros before the first step."""
        zero = t == 0
        return ContextInputs(
            self.observations[t][None],
            (0 * self.observations[0] if zero else self.observations[t - 1])[None],
            (0 * self.actions[0] if zero else self.actions[t - 1])[None],
            (0 * self.rewards[0] if zero else self.rewards[t - 1]).reshape(1, 1),
        )


def episodes_of(batch: Batch, learner: Any) -> list[Episode]:
    found = []
    statistics = learner.normalizer
    for row, begin in (batch.is_first & batch.mask).nonzero().tolist():
        end = begin
        while batch.mask[row, end]:
            end += 1
        observations = batch.observation[row, begin : end + 1]
        if statistics.enabled:
            observations = (observations - statistics.mean) / (statistics.deviation + 1e-6)
            observations = torch.clamp(observations, -10, 10)
        actions = batch.action[row, begin:end]
        if learner.dims.discrete:
            actions = torch.eye(learner.dims.action).double()[actions[:, 0].long()]
        ended = bool(batch.terminated[row, end - 1])
        found.append(
            Episode(observations, actions, batch.reward[row, begin:end], ended, row, begin)
        )
    assert sum(len(e.rewards) for e in found) == batch.steps
    return found


class Guard:
    """The released code's QValueGuard, with plain numbers."""

    def __init__(self, decay: bool) -> None:
        self.decay = decay
        self.low = self.high = math.nan

    def begin(self, values: list[float]) -> None:
        if math.isnan(self.low):
            self.low, self.high = min(0.0, *values), max(0.0, *values)

    def end(self, targets: list[float]) -> None:
        low, high = min(0.0, *targets), max(0.0, *targets)
        self.low, self.high = min(self.low, low), max(self.high, high)
        if self.decay:
            self.low = 0.999 * self.low + 0.001 * low
            self.high = 0.999 * self.high + 0.001 * high


def adam(network: nn.Module, encoder_rate: float, other_rate: float, scope: str) -> Any:
    prefix = "trunk.context_encoder." + ("rnn." if scope == "rnn" else "")
    named = list(network.named_parameters())
    return torch.optim.Adam(
        [
            {"params": [p for n, p in named if n.startswith(prefix)], "lr": encoder_rate},
            {"params": [p for n, p in named if not n.startswith(prefix)], "lr": other_rate},
        ]
    )


class SlowLearner:
    """The paper's update from the weights of a learner, sharing only its single networks' steps."""

    def __init__(self, learner: Any) -> None:
        settings = learner.config.algorithm
        self.learner, self.settings, self.dims = learner, settings, learner.dims
        self.policy: ContextPolicy = copy.deepcopy(learner.policy)
        self.critic: ContextCritic = copy.deepcopy(learner.critic)
        self.target: ContextCritic = copy.deepcopy(learner.target_critic)
        self.log_alpha = learner.temperature.log_alpha.detach().clone().requires_grad_()
        scope = settings.lr_scope
        self.critic_adam = adam(self.critic, settings.lr_context_encoder, settings.lr_critic, scope)
        self.policy_adam = adam(self.policy, settings.lr_context_encoder, settings.lr_policy, scope)
        self.alpha_adam = torch.optim.Adam([self.log_alpha], lr=settings.lr_alpha)
        self.guard = Guard(decay=not learner.dims.discrete)
        self.clamped = 0
        self.updates = 0
        self.metrics: dict[str, Tensor] = {}

    def distributions(self, episode: Episode, count: int) -> list[Any]:
        state, found = self.policy.initial_state(1), []
        for t in range(count):
            distribution, state = self.policy.step(episode.inputs(t), state)
            found.append(distribution)
        return found

    def contexts(self, episode: Episode) -> list[Tensor]:
        state, found = self.policy.initial_state(1), []
        for t in range(len(episode.rewards)):
            context, state = self.policy.trunk.step(episode.inputs(t), state)
            found.append(context)
        return found

    def sampled(self, distribution: Any, noise: Tensor) -> tuple[Tensor, Tensor]:
        """An action (A,) and its log density."""
        mean, deviation = distribution.mean[0], distribution.log_std[0].exp()
        raw = mean + deviation * noise
        action = torch.tanh(raw)
        slope = TanhTransform().log_abs_det_jacobian(raw, action)
        return action, (Normal(mean, deviation).log_prob(raw) - slope).sum()

    def q_values(
        self, critic: ContextCritic, episode: Episode, actions: list[Tensor] | None, count: int
    ) -> list[Tensor]:
        """For each of the first `count` moments (E,), or (E, A) for Discrete actions."""
        state, found = critic.trunk.context_encoder.rnn.initial_state(1), []
        for t in range(count):
            inputs = episode.inputs(t)
            context, state = critic.trunk.step(inputs, state)
            parts = [critic.observation(inputs.observation)[0], context[0]]
            if actions is not None:
                assert critic.action is not None
                parts.insert(1, critic.action(actions[t]))
            heads = []
            for e in range(self.settings.n_critics):
                x = torch.cat(parts)
                last = len(critic.heads.weights) - 1
                for i in range(last + 1):
                    x = critic.heads.weights[i][e] @ x + critic.heads.biases[i][e]
                    x = x if i == last else F.elu(x)
                heads.append(x if self.dims.discrete else x[0])
            found.append(torch.stack(heads))
        return found

    def noise_like(self, batch: Batch, generator: torch.Generator) -> Tensor:
        shape = (*batch.is_first.shape, self.dims.action)
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    def update(self, batch: Batch) -> None:
        """Call before the learner's own update, whose random numbers are taken from copies."""
        noise_source = torch.Generator().set_state(self.learner.generators["noise"].get_state())
        subset_source = torch.Generator().set_state(self.learner.generators["subset"].get_state())
        n_critics = self.settings.n_critics
        drawn = torch.randperm(n_critics, generator=subset_source)[: self.settings.subset_size]
        episodes = episodes_of(batch, self.learner)
        alpha = self.log_alpha.detach().exp()
        steps = sum(len(e.rewards) for e in episodes)

        with torch.no_grad():
            targets = self.targets(episodes, batch, alpha, drawn, noise_source)

        critic_loss: Any = 0.0
        q_sum = 0.0
        for episode, y in zip(episodes, targets, strict=True):
            length = len(episode.rewards)
            taken = None if self.dims.discrete else list(episode.actions)
            for t, q in enumerate(self.q_values(self.critic, episode, taken, length)):
                chosen = q[:, int(episode.actions[t].argmax())] if self.dims.discrete else q
                critic_loss = critic_loss + sum((y[t] - q_e) ** 2 for q_e in chosen)
                q_sum += float(chosen.detach().mean())
        critic_loss = critic_loss / steps
        self.critic_adam.zero_grad()
        critic_loss.backward()
        self.critic_adam.step()
        self.metrics = {
            "critic_loss": critic_loss.detach(),
            "q_mean": torch.tensor(q_sum / steps),
            "target_mean": sum(sum(y) for y in targets) / steps,
            "alpha": alpha,
        }
        tau = self.settings.tau
        with torch.no_grad():
            for old, new in zip(self.target.parameters(), self.critic.parameters(), strict=True):
                old.copy_((1 - tau) * old + tau * new)

        if self.updates % self.settings.policy_delay == 0:
            self.improve_policy(episodes, batch, alpha, noise_source, steps)
        self.updates += 1

    def targets(
        self,
        episodes: list[Episode],
        batch: Batch,
        alpha: Tensor,
        drawn: Tensor,
        source: torch.Generator,
    ) -> list[list[Tensor]]:
        noise = None if self.dims.discrete else self.noise_like(batch, source)
        values: list[list[Tensor]] = []
        done: list[list[Tensor]] = []
        for e in episodes:
            length = len(e.rewards)
            distributions = self.distributions(e, length + 1)
            mine = []
            taken = None if self.dims.discrete else list(e.actions)
            done.append(
                [
                    (q[:, int(e.actions[t].argmax())] if taken is None else q)[drawn].min()
                    for t, q in enumerate(self.q_values(self.target, e, taken, length))
                ]
            )
            if noise is None:
                q = self.q_values(self.target, e, None, length + 1)
                for t in range(1, length + 1):
                    log_probs = distributions[t].log_probs[0]
                    low = q[t][drawn].min(0).values  # (A,)
                    mine.append((log_probs.exp() * (low - alpha * log_probs)).sum())
            else:
                pairs = [
                    self.sampled(d, noise[e.row, e.begin + t]) for t, d in enumerate(distributions)
                ]
                q = self.q_values(self.target, e, [action for action, _ in pairs], length + 1)
                for t in range(1, length + 1):
                    mine.append(min(q[t][j] for j in drawn) - alpha * pairs[t][1])
            values.append(mine)
        if self.settings.clamp_target_values:
            self.guard.begin([float(v) for mine in values for v in mine])
            for mine in values:
                for t, value in enumerate(mine):
                    inside = value.clamp(self.guard.low, self.guard.high)
                    self.clamped += int(inside != value)
                    mine[t] = inside
        found = []
        for e, mine, q_taken in zip(episodes, values, done, strict=True):
            y: list[Tensor] = []
            last = len(e.rewards) - 1
            for t in range(last, -1, -1):
                reward, value = self.settings.reward_scale * e.rewards[t], mine[t]
                if t < last:  # what came after, as far as it is heeded
                    value = value + self.settings.td_lambda * (y[0] - q_taken[t + 1])
                over = e.terminated and t == last
                y.insert(0, reward if over else reward + self.settings.gamma * value)
            found.append(y)
        if self.settings.clamp_target_values:
            self.guard.end([float(v) for y in found for v in y])
        return found

    def improve_policy(
        self,
        episodes: list[Episode],
        batch: Batch,
        alpha: Tensor,
        source: torch.Generator,
        steps: int,
    ) -> None:
        noise = None if self.dims.discrete else self.noise_like(batch, source)
        loss: Any = 0.0
        entropies: list[Tensor] = []
        for e in episodes:
            length = len(e.rewards)
            distributions = self.distributions(e, length)
            if noise is None:
                for d, q in zip(
                    distributions, self.q_values(self.critic, e, None, length), strict=True
                ):
                    assert isinstance(d, Categorical)
                    log_probs = d.log_probs[0]
                    probs = log_probs.exp()
                    loss = loss + (probs * (alpha * log_probs - q.mean(0))).sum()
                    entropies.append(-(probs * log_probs).sum().detach())
            else:
                pairs = [
                    self.sampled(d, noise[e.row, e.begin + t]) for t, d in enumerate(distributions)
                ]
                q_values = self.q_values(self.critic, e, [a for a, _ in pairs], length)
                for (_, log_prob), q in zip(pairs, q_values, strict=True):
                    loss = loss + alpha * log_prob - q.mean()
                    entropies.append(-log_prob.detach())
        loss = loss / steps
        self.policy_adam.zero_grad()
        loss.backward()
        self.policy_adam.step()
        self.metrics |= {"policy_loss": loss.detach(), "entropy": sum(entropies) / steps}
        with torch.no_grad():
            contexts = torch.cat([c for e in episodes for c in self.contexts(e)])
        self.metrics |= {
            "context_norm": contexts.square().sum(1).sqrt().mean(),
            "context_std": contexts.var(0, correction=0).mean().sqrt(),
        }
        if self.settings.alpha is None:
            if self.dims.discrete:
                wanted = 0.2 * math.log(self.dims.action)
            else:
                wanted = -float(self.dims.action)
            if self.settings.target_entropy_scale is not None:
                default = 0.2 if self.dims.discrete else 1.0
                wanted *= self.settings.target_entropy_scale / default
            self.alpha_adam.zero_grad()
            (-sum(self.log_alpha * (wanted - h) for h in entropies) / steps).backward()
            self.alpha_adam.step()

    def assert_equals(self, learner: Any) -> None:
        for name, ours, theirs in (
            ("policy", learner.policy, self.policy),
            ("critic", learner.critic, self.critic),
            ("target", learner.target_critic, self.target),
        ):
            expected = dict(theirs.named_parameters())
            for key, parameter in ours.named_parameters():
                torch.testing.assert_close(
                    parameter.detach(),
                    expected[key].detach(),
                    rtol=1e-8,
                    atol=1e-10,
                    msg=lambda text, where=f"{name}.{key}": f"{where}: {text}",
                )
        torch.testing.assert_close(learner.temperature.log_alpha.detach(), self.log_alpha.detach())


CASES: dict[str, tuple[Dimensions, dict[str, Any]]] = {
    "mamba": (BOX, {}),
    "mamba-bare": (BOX, {"conv_kernel": 0, "feed_forward": False, "n_layers": 2}),
    "gru": (BOX, {"encoder": "gru"}),
    "lstm": (BOX, {"encoder": "lstm"}),
    "mlp": (BOX, {"encoder": "mlp"}),
    "rnn-scope": (BOX, {"encoder": "gru", "lr_scope": "rnn"}),
    "reward-input": (BOX, {"encoder": "gru", "reward_input": True, "reward_scale": 3.0}),
    "normalized": (BOX, {"encoder": "gru", "normalize_observations": True}),
    "entropy": (BOX, {"encoder": "gru", "target_entropy_scale": 0.0, "gamma": 0.9}),
    "fixed-alpha": (BOX, {"encoder": "gru", "alpha": 0.2}),
    "delay": (BOX, {"encoder": "gru", "policy_delay": 3, "tau": 0.1}),
    "all-heads": (BOX, {"encoder": "gru", "subset_size": 4}),
    "clamped": (BOX, {"encoder": "gru", "clamp_target_values": True}),
    "lambda": (BOX, {"encoder": "gru", "td_lambda": 0.8}),
    "discrete": (DISCRETE, {}),
    "discrete-lambda": (DISCRETE, {"encoder": "gru", "td_lambda": 0.9}),
    "discrete-gru": (DISCRETE, {"encoder": "gru", "reward_input": True}),
    "discrete-entropy": (DISCRETE, {"encoder": "gru", "target_entropy_scale": 0.7}),
    "discrete-fixed": (DISCRETE, {"encoder": "gru", "alpha": 0.2}),
    "discrete-floor": (DISCRETE, {"encoder": "gru", "probability_floor": 0.05}),
    "discrete-clamped": (DISCRETE, {"encoder": "gru", "clamp_target_values": True}),
}


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_updates_equal_the_slow_ones(case: str, rows: int) -> None:
    dims, changes = CASES[case]
    learner = make_learner(dims, **changes)
    if learner.normalizer.enabled:
        seen = 2 + 3 * np.random.default_rng(0).normal(size=(50, dims.observation))
        learner.normalizer.update(seen.astype(np.float32))
    slow = SlowLearner(learner)
    for number in range(4 if rows == 1 else 1):
        batch = make_batch(dims, [3, 1, 4, 2], seed=number, rows=rows)
        slow.update(batch)
        metrics = learner.update(batch, want_metrics=True)
        slow.assert_equals(learner)
        assert slow.metrics.keys() == {n for n in metrics if not n.startswith("gradient_norm/")}
        for name, value in slow.metrics.items():
            torch.testing.assert_close(
                metrics[name].double(), torch.as_tensor(value).double(), rtol=1e-6, atol=1e-9
            )


@pytest.mark.parametrize("dims", [BOX, DISCRETE], ids=["box", "discrete"])
def test_the_clamp_is_the_released_guard(dims: Dimensions) -> None:
    """Over batches whose values leave the range upwards, then downwards."""
    learner = make_learner(dims, encoder="gru", clamp_target_values=True)
    slow = SlowLearner(learner)
    assert torch.isnan(learner.state()[0]["clamp_bounds"]).all()
    clamped = []
    for number, push in enumerate([0.0, 0.0, 30.0, 0.0, -80.0, 0.0]):
        for critic in (learner.target_critic, slow.target):
            critic.heads.biases[-1].data += push
        batch = make_batch(dims, [3, 5, 2], seed=number)
        batch.observation[batch.is_first] *= 30  # o_0 is no step's next: its value must not count
        slow.update(batch)
        learner.update(batch)
        slow.assert_equals(learner)
        bounds = learner.state()[0]["clamp_bounds"].double()
        expected = torch.tensor([slow.guard.low, slow.guard.high]).double()
        torch.testing.assert_close(bounds, expected, rtol=1e-5, atol=1e-6)
        assert bounds[0] <= 0 <= bounds[1]
        clamped.append(slow.clamped)
    assert clamped[0] == 0  # the first batch sets the range
    assert clamped[2] > clamped[1] and clamped[4] > clamped[3]  # and it does hold values back


def test_the_clamp_is_off_unless_asked_for() -> None:
    learner = make_learner(BOX, encoder="gru")
    learner.update(make_batch(BOX, [3, 4], seed=0))
    assert torch.isnan(learner.state()[0]["clamp_bounds"]).all()
