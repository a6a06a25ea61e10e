"""ProMP: updates done again the slow way, the gradient through the inner step, what it is worth."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hidden_goals import HiddenGoals
from slow_steps import BOX, make_learner
from torch import Tensor
from torch.distributions import Independent, Normal, kl_divergence

from resel import Agent
from resel.data import ADAPTED, Batch, ReplayBuffer, Trajectory
from resel.errors import ConfigError, EnvironmentFault
from resel.training import evaluate, evaluation_seeds

TASKS = 3
SIZES: dict[str, Any] = {
    "method": "promp",
    "num_envs": TASKS,
    "phase_steps": 12,
    "inner_step": 0.3,
    "gae_lambda": 0.9,
    "kl_weight": 0.05,
    "action_scale": 0.5,
    "epochs": 3,
}
QUICK: dict[str, Any] = {
    "num_envs": 8,
    "phase_steps": 40,
    "head_width": 16,
    "action_scale": 0.5,
    "lr_policy": 5e-3,
    "buffer_steps": 20_000,
    "warmup_steps": 0,
    "eval_every": 0,
    "checkpoint_every": 0,
    "device": "cpu",
}


def told_buffer(seed: int = 0) -> ReplayBuffer:
    """Two rounds of trials of noise; only the second is new."""
    rng = np.random.default_rng(seed)
    buffer = ReplayBuffer(1000, 3, 2, {"trial": 2})
    for number in range(2 * TASKS):
        for phase, length in ((0, 5), (0, 7), (1, 4), (1, 8)):
            told = np.tile(np.array([number, phase], np.float32), (length + 1, 1))
            buffer.add(
                Trajectory(
                    rng.normal(size=(length + 1, 3)).astype(np.float32),
                    (0.5 * rng.normal(size=(length, 2))).astype(np.float32),
                    rng.normal(size=length).astype(np.float32),
                    terminated=length % 2 == 0,
                    extras={"trial": told},
                )
            )
    return buffer


def drawn(learner: Any, seed: int = 0) -> Batch:
    batch = learner.sampler.draw(told_buffer(seed), np.random.default_rng(0), len)
    floats = ("observation", "action", "reward", "terminated")
    return dataclasses.replace(batch, **{name: getattr(batch, name).double() for name in floats})


def policy_of(weights: list[Tensor], observation: Tensor) -> Any:
    x = observation
    for i in range(0, len(weights) - 1, 2):
        x = x @ weights[i].T + weights[i + 1]
        x = torch.tanh(x) if i < len(weights) - 3 else x
    return Independent(Normal(0.5 * x, 0.5 * weights[-1].exp()), 1)


def weights_of(learner: Any) -> list[Tensor]:
    policy = learner.policy
    return [*policy.layers.parameters(), policy.log_std]


def judged(episodes: list[Trajectory], gamma: float, lam: float) -> tuple[Tensor, Tensor, Tensor]:
    """Observations, actions and standardised advantages, by loops."""
    features, targets = [], []
    for e in episodes:
        later = 0.0
        own = []
        for t in reversed(range(len(e))):
            later = float(e.rewards[t]) + gamma * later
            own.append(later)
        targets += own[::-1]
        for t in range(len(e)):
            o, s = e.observations[t].astype(np.float64), t / 100
            features.append(np.concatenate([o, o**2, [s, s**2, s**3, 1.0]]))
    x, y = np.stack(features), np.array(targets)
    ridge = np.sqrt(1e-5) * np.eye(x.shape[1])
    rows, wanted = np.concatenate([x, ridge]), np.concatenate([y, np.zeros(len(ridge))])
    value = x @ np.linalg.lstsq(rows, wanted, rcond=None)[0]
    found, at = [], 0
    for e in episodes:
        own_value, later, own = value[at : at + len(e)], 0.0, []
        for t in reversed(range(len(e))):
            following = own_value[t + 1] if t + 1 < len(e) else 0.0
            delta = float(e.rewards[t]) + gamma * following - own_value[t]
            later = delta + gamma * lam * later
            own.append(later)
        found += own[::-1]
        at += len(e)
    advantage = np.array(found)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    observation = np.concatenate([e.observations[:-1] for e in episodes])
    action = np.concatenate([e.actions for e in episodes])
    parts = (observation, action, advantage)
    return tuple(torch.from_numpy(part.astype(np.float64)) for part in parts)  # type: ignore[return-value]


class SlowProMP:
    """Rothfuss et al. 2019."""

    def __init__(self, learner: Any, buffer: ReplayBuffer) -> None:
        self.settings = learner.settings
        self.weights = [p.detach().clone().requires_grad_() for p in weights_of(learner)]
        self.adam = torch.optim.Adam(self.weights, self.settings.lr_policy)
        told = buffer.told("trial")
        assert told is not None
        self.tasks = []
        for number in range(TASKS, 2 * TASKS):
            phases = []
            for phase in (0, 1):
                own = np.flatnonzero((told[:, 0] == number) & (told[:, 1] == phase))
                episodes = [buffer.episode(i) for i in own.tolist()]
                phases.append(judged(episodes, self.settings.gamma, self.settings.gae_lambda))
            self.tasks.append(phases)
        old = [w.detach().clone().requires_grad_() for w in self.weights]
        self.old = old
        self.acted = [policy_of(old, before[0]) for before, _ in self.tasks]
        self.adapted_log_prob = [
            policy_of(self.inner(old, k), after[0]).log_prob(after[1]).detach()
            for k, (_, after) in enumerate(self.tasks)
        ]

    def inner(self, weights: list[Tensor], k: int) -> list[Tensor]:
        observation, action, advantage = self.tasks[k][0]
        acted = self.acted[k].log_prob(action).detach()
        ratio = (policy_of(weights, observation).log_prob(action) - acted).exp()
        gain = (ratio * advantage).mean()
        gradients = torch.autograd.grad(gain, weights, create_graph=True)
        return [w + self.settings.inner_step * g for w, g in zip(weights, gradients, strict=True)]

    def update(self) -> float:
        loss: Any = 0.0
        for k, (before, (observation, action, advantage)) in enumerate(self.tasks):
            now = policy_of(self.inner(self.weights, k), observation).log_prob(action)
            ratio = (now - self.adapted_log_prob[k]).exp()
            clip = self.settings.clip
            gain = torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
            moved = kl_divergence(
                policy_of([w.detach() for w in self.old], before[0]),
                policy_of(self.weights, before[0]),
            ).mean()
            loss = loss + (self.settings.kl_weight * moved - gain.mean()) / TASKS
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        return float(loss.detach())


def test_updates_are_the_formulas() -> None:
    learner: Any = make_learner(BOX, **{**SIZES, "lr_policy": 2e-2})
    batch = drawn(learner)
    assert batch.extras[ADAPTED][:, 0, 0].tolist() == [0, 0, 0, 1, 1, 1]
    reference = SlowProMP(learner, told_buffer())
    learner._judged = batch, learner._known(batch)  # as `draw` does it
    for _ in range(3):
        expected = reference.update()
        metrics = learner.update(batch, want_metrics=True)
        whole = metrics["policy_loss"] + SIZES["kl_weight"] * metrics["policy_kl"]
        assert whole.item() == pytest.approx(expected, rel=1e-7, abs=1e-9)
        for mine, theirs in zip(reference.weights, weights_of(learner), strict=True):
            torch.testing.assert_close(theirs, mine, rtol=1e-6, atol=1e-8)
    assert metrics["policy_kl"] > 0
    assert learner._judged is None  # after the last of the updates from the same steps


def test_the_gradient_through_the_inner_step_is_that_of_finite_differences() -> None:
    learner: Any = make_learner(BOX, **SIZES)
    known = learner._known(drawn(learner))
    parameters = weights_of(learner)
    with torch.no_grad():  # away from where it acted, so that every term has a slope
        for p in parameters:
            p += 0.02 * torch.randn(p.shape, generator=torch.Generator().manual_seed(1)).double()

    def loss() -> Tensor:
        found: Tensor = learner.outer_loss(known)[0]
        return found

    exact = torch.autograd.grad(loss(), parameters)
    for p, gradient in zip(parameters, exact, strict=True):
        for index in (0, p.numel() // 2, p.numel() - 1):
            sides = []
            for side in (1e-5, -1e-5):
                with torch.no_grad():
                    p.view(-1)[index] += side
                sides.append(loss().item())
                with torch.no_grad():
                    p.view(-1)[index] -= side
            slope = (sides[0] - sides[1]) / 2e-5
            assert gradient.reshape(-1)[index].item() == pytest.approx(slope, rel=1e-5, abs=1e-8)

    class FirstOrder(type(learner)):  # type: ignore[misc]
        def adapted(self, weights: Tensor, *known: Any) -> Tensor:
            return weights + (super().adapted(weights, *known) - weights).detach()

    learner.__class__ = FirstOrder
    shorter = torch.autograd.grad(loss(), parameters)
    assert any((a - b).abs().max() > 1e-3 for a, b in zip(exact, shorter, strict=True))


def test_the_adapted_policy_acts_as_its_weights_say() -> None:
    learner: Any = make_learner(BOX, **SIZES)
    policy, seen = learner.policy, torch.randn(2, 3, dtype=torch.float64)
    added = 0.1 * torch.randn(2, len(policy.flat()), dtype=torch.float64)
    acting, _ = policy.step(type(learner.inputs(drawn(learner))[0])(*[seen] * 4), (added,))
    for row in range(2):
        flat, at, own = policy.flat() + added[row], 0, []
        for p in weights_of(learner):
            own.append(flat[at : at + p.numel()].view_as(p))
            at += p.numel()
        expected = policy_of(own, seen[row])
        torch.testing.assert_close(acting.mean[row], expected.mean)
        torch.testing.assert_close(acting.log_std[row].exp(), expected.stddev)


def test_adapted_it_earns_more_than_before() -> None:
    agent = Agent(HiddenGoals, "promp", preset="paper", **QUICK)
    agent.learn(640 * 6)
    env, trial = agent._trainer.evaluator.env, agent._trainer.buffer.told("trial")
    assert env is not None and trial is not None
    assert agent.learner.updates == 6 * 5
    adapted = evaluate(agent.actor, env, evaluation_seeds(1, 8))
    assert adapted.adaptation_steps == 8 * 40
    policy = agent.learner.policy
    unadapted = []
    for seed in evaluation_seeds(1, 8):
        observation, state, ended, total = env.reset(seed), None, False, 0.0
        while not ended:
            action, state = agent.predict(observation, state)
            outcome = env.step(action)
            observation, ended = outcome.observation, outcome.truncated
            total += outcome.reward
        unadapted.append(total)
    assert adapted.return_mean > np.mean(unadapted) + 0.5
    assert (
        sum(p.numel() for p in policy.parameters())
        == agent.actor.initial_state(1).hidden[0].shape[1]
    )
    for number in (0, 7, 8 * 5):
        own = trial[trial[:, 0] == number, 1]
        assert own.tolist() == [0] * 5 + [1] * 5
    agent.close()


def test_phases_cut_episodes() -> None:
    changes = {"phase_steps": 10, "episode_steps": 6, "num_envs": 2}
    agent = Agent(HiddenGoals, "promp", preset="paper", **{**QUICK, **changes})
    agent.learn(80)
    buffer = agent._trainer.buffer
    assert [piece.length for piece in buffer] == [6, 6, 4, 4] * 4
    assert buffer.steps == 80 == agent.num_timesteps and agent.learner.updates == 2 * 5
    agent.close()


class Silent(HiddenGoals):
    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        return super().reset(**options)[0], {}


@pytest.mark.parametrize(
    ("method", "env", "changes", "error", "said"),
    [
        ("pearl", Silent, {}, ConfigError, r"pearl learns from info\['task'\] .*does not tell"),
        ("promp", Silent, {}, ConfigError, "such as Pendulum-gravity-v0"),
        ("promp", lambda: HiddenGoals(obeys=False), {}, EnvironmentFault, "was asked for task"),
        ("promp", HiddenGoals, {"num_envs": 1}, ConfigError, "num_envs=1: promp learns from sev"),
        ("promp", HiddenGoals, {"buffer_steps": 99}, ConfigError, "buffer_steps=99 is too small"),
        ("promp", HiddenGoals, {"buffer_steps": 99}, ConfigError, "twice as many: raise it to 160"),
        ("promp", Silent, {"buffer_steps": 99}, ConfigError, "this environment does not tell"),
        ("promp", HiddenGoals, {"latent_size": 3}, ConfigError, "it belongs to the methods pearl"),
    ],
)
def test_refused(method: str, env: Any, changes: dict[str, Any], error: Any, said: str) -> None:
    usual = {"num_envs": 4, "phase_steps": 10, "buffer_steps": 1000, "device": "cpu"}
    usual = usual if method == "promp" else {"device": "cpu", "buffer_steps": 1000}
    with pytest.raises(error, match=said):
        Agent(env, method, preset="paper", **{**usual, **changes}).learn(10)


@pytest.mark.parametrize("method", ["pearl", "promp"])
def test_a_saved_agent_acts_in_a_single_environment(method: str, tmp_path: Path) -> None:
    usual = {"num_envs": 3, "phase_steps": 10} if method == "promp" else {}
    agent = Agent(HiddenGoals, method, preset="paper", device="cpu", buffer_steps=1000, **usual)
    agent.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent", HiddenGoals(), device="cpu")
    seen = np.array([0.5], np.float32)
    state: Any = None
    for _ in range(3):
        action, state = again.predict(seen, state)
        np.testing.assert_array_equal(action, agent.predict(seen)[0])  # nothing is remembered
    again.evaluate(2)
    kept = {name for name in again.learner.weights() if "task" in name or "trial" in name}
    assert not kept
    if method == "promp":
        with pytest.raises(ConfigError, match="num_envs=1"):
            again.learn(10)
    for one in (agent, again):
        one.close()
