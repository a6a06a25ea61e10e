"""ESCP, OSI and EPI: updates by the equations, what contexts come to know, what is refused."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from slow_updates import (
    BOX,
    SlowSAC,
    Weights,
    Window,
    gru_step,
    layer,
    make_batch,
    make_learner,
    windows_of,
)
from torch import Tensor
from torch.nn.functional import leaky_relu

from resel import Agent
from resel.agent import configure
from resel.config import Config
from resel.data import Batch, Histories, ReplayBuffer, Trajectory, Windows, constant_columns
from resel.errors import ConfigError
from resel.methods import Learner, build_learner
from resel.networks import ContextInputs, Dimensions
from resel.training import Workload

NAMES = ["escp", "osi", "epi"]
SMALL: dict[str, Any] = {
    "embedding": 5,
    "last_width": 6,
    "log_std_min": -20.0,
    "lr_transition": 7e-3,
    "batch_windows": 4,
    "gamma": 0.9,
}
ESCP: dict[str, Any] = {
    "batch_transitions": 14,
    "context_length": 4,
    "n_tasks": 5,
    "relation_after": 0,
    "mean_tau": 0.3,
}


def encoded(weights: Weights, trunk: str, inputs: list[Tensor]) -> list[Tensor]:
    """z after each of the inputs [o_t, a_{t-1}], from nothing."""
    encoder = f"{trunk}.context_encoder"
    h = torch.zeros(weights[f"{encoder}.rnn.layers.weight_hh_l0"].shape[1], dtype=torch.float64)
    found = []
    for x in inputs:
        x = leaky_relu(layer(weights, f"{encoder}.before.linear", x))
        h = gru_step(weights, f"{encoder}.rnn.layers", x, h)
        found.append(torch.tanh(layer(weights, f"{encoder}.after.0", h)))
    return found


def contexts(weights: Weights, trunk: str, window: Window) -> list[Tensor]:
    nothing = torch.zeros_like(window.actions[0])
    before = [nothing, *window.actions]
    pairs = zip(window.observations, before, strict=True)
    return encoded(weights, trunk, [torch.cat(pair) for pair in pairs])


def heads(weights: Weights, name: str, head: int, x: Tensor) -> Tensor:
    for number in range(3):
        x = weights[f"{name}.weights.{number}"][head] @ x + weights[f"{name}.biases.{number}"][head]
        x = leaky_relu(x) if number < 2 else x
    return x


def policy_head(weights: Weights, context: Tensor, observation: Tensor) -> Tensor:
    x = torch.cat([context.detach(), observation])
    for number in (0, 2):
        x = leaky_relu(layer(weights, f"head.{number}", x))
    return layer(weights, "head.4", x)


def both_critics(
    weights: Weights, observation: Tensor, context: Tensor, action: Tensor
) -> list[Tensor]:
    x = torch.cat([observation, context.detach(), action])
    return [heads(weights, "inside.heads", head, x)[0] for head in range(2)]


class SlowContext(SlowSAC):
    """SAC on the policy's context, which policy and critics do not teach."""

    def policy_outputs(self, weights: Weights, window: Window) -> list[Tensor]:
        pairs = zip(self.contexts(weights, "trunk", window), window.observations, strict=True)
        return [policy_head(weights, context, now) for context, now in pairs]

    def q_values(
        self,
        weights: Weights,
        window: Window,
        action_at: Callable[[int], Tensor | None],
        steps: range,
    ) -> list[list[Tensor]]:
        known = self.contexts(self.nets["policy"], "trunk", window)
        found = []
        for t in steps:
            action = action_at(t)
            assert action is not None
            found.append(both_critics(weights, window.observations[t], known[t], action))
        return found


class SlowOSI(SlowContext):
    def auxiliary(self, batch: Batch, windows: list[Window]) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for window in windows:
            wanted = float(batch.extras["hidden"][window.row, window.begin, 0])
            for t in window.steps:
                first, second = self.contexts(self.nets["policy"], "trunk", window)[t]
                total = total + ((first - wanted) ** 2 + second**2) / 2
        return total / batch.steps


class SlowEPI(SlowContext):
    def foretold(self, windows: list[Window], fixed: str) -> Tensor:
        """The mean error; what is `fixed` gets no gradient."""
        total, count = torch.zeros((), dtype=torch.float64), 0
        model = self.nets["transition"]
        if fixed == "model":
            model = {key: value.detach() for key, value in model.items()}
        for window in windows:
            known = self.contexts(self.nets["policy"], "trunk", window)
            for t in window.steps:
                now, after = window.observations[t], window.observations[t + 1]
                context = known[t].detach() if fixed == "context" else known[t]
                change = heads(model, "heads", 0, torch.cat([now, context, window.actions[t]]))
                total = total + ((change + now - after) ** 2).sum() / len(now)
                count += 1
        return total / count

    def update(self, batch: Batch) -> None:
        self.descend("transition", self.foretold(windows_of(batch, self.dims), "context"))
        super().update(batch)

    def auxiliary(self, batch: Batch, windows: list[Window]) -> Tensor:
        return self.foretold(windows, "model")


class SlowESCP(SlowSAC):
    """Every step with its own history, the means of tasks one by one."""

    def __init__(self, learner: Learner) -> None:
        super().__init__(learner, contexts)
        self.means: dict[int, Tensor] = {}

    def context(self, batch: Batch, row: int, slot: int) -> Tensor:
        """z after the newest inputs, from where the episode or the history begins."""
        begin = slot
        while not batch.is_first[row, begin] and begin > slot - self.settings.context_length + 1:
            begin -= 1
        inputs = []
        for t in range(begin, slot + 1):
            before = torch.zeros_like(batch.action[row, 0])
            if not batch.is_first[row, t]:
                before = batch.action[row, t - 1]
            inputs.append(torch.cat([batch.observation[row, t], before]))
        return encoded(self.nets["policy"], "trunk", inputs)[-1]

    def relation(self, known: list[Tensor], tasks: list[int]) -> Tensor:
        """50 C + 0.004 D, the latter where C is small."""
        settings, size = self.settings, len(known[0])
        square = torch.zeros((), dtype=torch.float64)
        for z, task in zip(known, tasks, strict=True):
            square = square + ((z - self.means[task]) ** 2).sum() / size
        distance = (square / len(known)).sqrt()
        means = []
        for task, moving in sorted(self.means.items()):
            own = [z for z, other in zip(known, tasks, strict=True) if other == task]
            means.append(sum(own) / len(own) if own else moving)  # type: ignore[arg-type]
        kernel = torch.zeros(len(means), len(means), dtype=torch.float64)
        for j, k in itertools.product(range(len(means)), repeat=2):
            near = torch.exp(-settings.kernel_sharpness * (means[j] - means[k]) ** 2).sum() / size
            kernel[j, k] = near + (1e-3 if j == k else 0.0)
        loss = settings.consistency_weight * distance
        if distance < settings.diversity_below:
            loss = loss - settings.diversity_weight * torch.log(torch.det(kernel))
        return loss

    def update(self, batch: Batch) -> None:
        settings, slots = self.settings, batch.mask.nonzero().tolist()
        n, source = len(slots), self.noise_source()
        shapes = (self.learner.config.network.context_size, self.dims.action, self.dims.action)
        jitter, first, second = (
            torch.randn((n, 2, size), generator=source, dtype=torch.float64) for size in shapes
        )
        alpha = self.log_alpha.detach().exp()
        now = [self.context(batch, row, slot) for row, slot in slots]
        after = [self.context(batch, row, slot + 1).detach() for row, slot in slots]
        tasks = [int(batch.extras["task"][row, slot, 0]) for row, slot in slots]
        for task in set(tasks):
            own = [z.detach() for z, other in zip(now, tasks, strict=True) if other == task]
            mean: Any = sum(own) / len(own)  # type: ignore[arg-type]
            share = settings.mean_tau if task in self.means else 1.0
            self.means[task] = self.means.get(task, mean) * (1 - share) + share * mean

        loss = torch.zeros((), dtype=torch.float64)
        for i, (row, slot) in enumerate(slots):
            mean, seen = self.means[tasks[i]], batch.observation[row, slot + 1]
            with torch.no_grad():
                noisy = after[i] + settings.context_noise * jitter[i, 1]
                output = policy_head(self.nets["policy"], noisy, seen)
                action, log_prob = self.drawn(output, first[i, 1])
                value = min(both_critics(self.targets["critic"], seen, mean, action))
                goes_on = settings.gamma * (1 - batch.terminated[row, slot])
                y = batch.reward[row, slot] + goes_on * (value - alpha * log_prob)
            taken = batch.observation[row, slot], mean, batch.action[row, slot]
            for q in both_critics(self.nets["critic"], *taken):
                loss = loss + (q - y) ** 2
        self.descend("critic", loss / n)
        self.follow("critic")

        loss, entropy = torch.zeros(2, dtype=torch.float64)
        for i, (row, slot) in enumerate(slots):
            noisy = now[i] + settings.context_noise * jitter[i, 0]
            output = policy_head(self.nets["policy"], noisy, batch.observation[row, slot])
            action, log_prob = self.drawn(output, second[i, 0])
            known = batch.observation[row, slot], self.means[tasks[i]], action
            loss = (
                loss + alpha * log_prob - torch.minimum(*both_critics(self.nets["critic"], *known))
            )
            entropy = entropy - log_prob
        self.descend("policy", loss / n + self.relation(now, tasks))
        self.steer(entropy / n)


@pytest.mark.parametrize("rate", [None, 1e-4], ids=["one rate", "LR_CE"])
@pytest.mark.parametrize("method", ["osi", "epi"])
def test_updates_are_what_the_equations_say(method: str, rate: float | None) -> None:
    learner = make_learner(method, BOX, **SMALL, context_length=5, lr_context_encoder=rate)
    slow = {"osi": SlowOSI, "epi": SlowEPI}[method](learner, contexts)
    for number in range(2):
        batch = make_batch(learner, seed=number)
        slow.update(batch)
        learner.update(batch)
        slow.assert_equals()


@pytest.mark.parametrize("below", [1e-6, 10.0], ids=["together", "apart"])
def test_updates_of_escp_are_what_the_equations_say(below: float) -> None:
    settings = {**SMALL, **ESCP, "diversity_below": below, "kernel_sharpness": 3.0}
    learner: Any = make_learner("escp", BOX, **settings, diversity_weight=2.0)
    slow = SlowESCP(learner)
    for number in range(3):
        batch = make_batch(learner, seed=number)
        slow.update(batch)
        learner.update(batch)
        slow.assert_equals()
        means, known = (learner.extra_state()[f"policy_task{n}"] for n in ("_means", "s_known"))
        assert known.nonzero().flatten().tolist() == sorted(slow.means)
        for task, mean in slow.means.items():
            torch.testing.assert_close(means[task], mean, rtol=1e-8, atol=1e-10)


def test_histories_end_at_steps_drawn_alike() -> None:
    learner = make_learner("escp", BOX, **SMALL, **ESCP)
    assert learner.sampler == Histories(14, 4)
    assert make_learner("osi", BOX, **SMALL, context_length=5).sampler == Windows(4, 5)
    buffer = ReplayBuffer(100, 1, 1)
    for begin, length in ((0, 7), (10, 2)):
        seen = np.arange(begin, begin + length + 1, dtype=np.float32)[:, None]
        zeros = np.zeros((length, 1), np.float32)
        buffer.add(Trajectory(seen, zeros, zeros[:, 0], terminated=begin == 10))
    batch = Histories(4000, 4).draw(buffer, np.random.default_rng(0), lambda lengths: 3)
    counted, starts = batch.observation[batch.mask][:, 0], batch.is_first
    values, number = counted.unique(return_counts=True)
    assert values.tolist() == [0, 1, 2, 3, 4, 5, 6, 10, 11] and batch.steps == 4000
    assert number.min() > 370 and number.max() < 520
    for row, slot in batch.mask.nonzero().tolist()[:200]:
        begin = slot
        while not starts[row, begin]:
            begin -= 1
        last, first = (
            float(batch.observation[row, slot, 0]),
            float(batch.observation[row, begin, 0]),
        )
        assert first == max(last - 3, 10 if last >= 10 else 0)
        assert batch.observation[row, slot + 1, 0] == last + 1
        assert bool(batch.terminated[row, slot]) == (last == 11)


def test_acting_with_a_context_of_the_newest_steps_is_reading_them_anew() -> None:
    learner: Any = make_learner("escp", BOX, **SMALL, **ESCP)
    policy, rng = learner.policy, torch.Generator().manual_seed(0)
    weights = dict(policy.named_parameters())
    parts = [torch.randn(2, 11, size, generator=rng, dtype=torch.float64) for size in (3, 3, 2, 1)]
    inputs = ContextInputs(*parts)
    is_first = torch.zeros(2, 11, dtype=torch.bool)
    is_first[:, 0] = True
    state = policy.initial_state(2)
    with torch.no_grad():
        whole = policy(inputs, is_first)
        for t in range(11):
            acting, state = policy.step(ContextInputs(*(part[:, t] for part in inputs)), state)
            for row in range(2):
                newest = range(max(0, t - 3), t + 1)
                read = [
                    torch.cat([inputs.observation[row, s], inputs.last_action[row, s]])
                    for s in newest
                ]
                output = policy_head(
                    weights, encoded(weights, "trunk", read)[-1], inputs.observation[row, t]
                )
                torch.testing.assert_close(acting.mean[row], output[2:])
            torch.testing.assert_close(acting.mean, whole.mean[:, t])
    assert [part.shape for part in state] == [(2, 4, 5), (2, 1)]


# What contexts come to know: a place that moves by the action times a hidden gain in [-1, 1].

GAIN_TASKS, GAIN_STEPS = 8, 20


def gains(episodes: int, seed: int) -> ReplayBuffer:
    rng = np.random.default_rng(seed)
    buffer = ReplayBuffer(episodes * GAIN_STEPS, 1, 1, {"task": 1, "hidden": 1})
    for number in range(episodes):
        task = number % GAIN_TASKS
        hidden = task / (GAIN_TASKS - 1)
        actions = rng.uniform(-1, 1, (GAIN_STEPS, 1)).astype(np.float32)
        moved = np.cumsum((2 * hidden - 1) * actions, 0)
        seen = np.concatenate([np.zeros((1, 1)), moved]).astype(np.float32)
        told = {"task": np.float32([task]), "hidden": np.float32([hidden])}
        columns = constant_columns(told, GAIN_STEPS)
        rewards = np.zeros(GAIN_STEPS, np.float32)
        buffer.add(Trajectory(seen, actions, rewards, terminated=False, extras=columns))
    return buffer


def trained_on_gains(method: str, updates: int, **settings: Any) -> tuple[Learner, list[float]]:
    """The learner, and its loss of the context on the way."""
    rates = {"lr_policy": 1e-2, "lr_transition": 1e-2, "batch_windows": 16, "context_length": 16}
    sizes = dict.fromkeys(("embedding", "width", "head_width", "last_width"), 16)
    layers = {**rates, **sizes, "n_tasks": GAIN_TASKS, "relation_after": 0, "device": "cpu"}
    config = Config.build("", {"method": method}, layers, settings)
    learner = build_learner(config, Dimensions(1, 1, False), torch.device("cpu"))
    buffer, rng, found = gains(64, 0), np.random.default_rng(1), []
    for _ in range(updates):
        batch = learner.draw(buffer, rng)
        found.append(float(learner.update(batch, want_metrics=True)["context_loss"]))
    return learner, found


def late_contexts(learner: Learner) -> tuple[Tensor, Tensor]:
    """Contexts of new episodes at their last steps, and the hidden parameter there."""
    buffer = gains(2 * GAIN_TASKS, 5)
    batch = Windows(2 * GAIN_TASKS, GAIN_STEPS).draw(buffer, np.random.default_rng(0), len)
    with torch.no_grad():
        context = learner.policy.context(learner.inputs(batch)[0], batch.is_first)
    assert context is not None
    return context[:, -3], batch.extras["hidden"][:, -3]


def test_the_estimate_of_osi_follows_what_is_hidden() -> None:
    learner, _ = trained_on_gains("osi", 150)
    context, hidden = late_contexts(learner)
    assert np.corrcoef(context[:, 0], hidden[:, 0])[0, 1] ** 2 > 0.9
    assert context[:, 1].abs().mean() < 0.1


def test_epi_foretells_better_than_any_model_without_a_context() -> None:
    _, found = trained_on_gains("epi", 200)
    # Gains are as often positive as negative, so without them the best guess is no change.
    gain = np.linspace(-1, 1, GAIN_TASKS)
    without = float((gain**2).mean() / 3)
    assert np.mean(found[:5]) > 0.8 * without
    assert np.mean(found[-20:]) < 0.4 * without


def test_escp_tells_tasks_apart() -> None:
    weights = {"consistency_weight": 5.0, "diversity_weight": 1.0, "kernel_sharpness": 10.0}
    settings = {**weights, "mean_tau": 0.1, "batch_transitions": 64, "context_length": 8}
    frozen, learned = (
        trained_on_gains("escp", updates, **settings, **more)[0].extra_state()["policy_task_means"]
        for updates, more in ((20, {"relation_after": 10**6}), (150, {}))
    )
    assert learned.std(0).max() > 4 * frozen.std(0).max()
    gain = np.linspace(-1, 1, GAIN_TASKS)
    assert max(np.corrcoef(learned[:, i], gain)[0, 1] ** 2 for i in range(2)) > 0.7


# What may be known where


@pytest.mark.parametrize("method", NAMES)
def test_what_is_told_reaches_neither_the_policy_nor_the_saved_agent(method: str) -> None:
    learner = make_learner(method, BOX, **SMALL, **ESCP)
    batch = make_batch(learner, seed=0)
    other = {name: column + 1 for name, column in batch.extras.items()}
    changed = dataclasses.replace(batch, extras=other)
    found = [learner.policy(learner.inputs(b)[0], b.is_first) for b in (batch, changed)]
    assert torch.equal(found[0].mean, found[1].mean)  # type: ignore[union-attr]
    learner.update(batch)
    assert not [name for name in learner.weights() if "task" in name or "hidden" in name]
    state = set(learner.extra_state())
    assert state == (
        {"policy_task_means", "policy_tasks_known", "finished_steps"} if method == "escp" else set()
    )


@pytest.mark.parametrize("method", NAMES)
def test_policy_and_critics_do_not_teach_the_context(method: str) -> None:
    learner = make_learner(method, BOX, **SMALL, **{**ESCP, "relation_after": 10**6})
    before = {k: v.detach().clone() for k, v in learner.policy.named_parameters()}
    learner.update(make_batch(learner, seed=0))
    moved = {k for k, v in learner.policy.named_parameters() if not torch.equal(v, before[k])}
    assert {name.startswith("head.") for name in moved} == (
        {True} if method == "escp" else {True, False}
    )


def test_a_saved_agent_acts_where_nothing_is_told(tmp_path: Path) -> None:
    sizes = {"embedding": 4, "width": 4, "head_width": 4, "last_width": 4, "batch_transitions": 8}
    agent = Agent(
        "toy/Box-v0",
        "escp",
        preset="paper",
        **sizes,
        warmup_steps=20,
        learn_after=0,
        buffer_steps=200,
        env_kwargs={"tells": True},
        device="cpu",
    )
    agent.learn(30)
    agent.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent", env=lambda: gymnasium.make("toy/Box-v0"), device="cpu")
    assert np.isfinite(again.evaluate(2)[0])
    with pytest.raises(ConfigError, match=r"escp learns from info\['task'\]"):
        again.learn(10)
    for one in (agent, again):
        one.close()


@pytest.mark.parametrize("method", NAMES)
def test_updates_can_be_timed_without_a_world(method: str) -> None:
    config = Config.build("", {"method": method}, SMALL, ESCP, {"width": 4, "device": "cpu"})
    assert Workload.build(config, BOX, length=6, episodes=3).seconds_per_update() > 0


# What is refused


class Telling(gymnasium.Env[Any, Any]):
    """A world that tells something."""

    def __init__(self, **info: Any) -> None:
        self.info = info
        self.observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), self.info

    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), 0.0, False, True, {}


@pytest.mark.parametrize(
    ("method", "info", "words"),
    [
        ("escp", {"hidden": [0.5]}, r"escp learns from info\['task'\].*let it tell that"),
        ("osi", {"task": 1}, r"osi learns from info\['hidden'\].*or another method"),
        ("osi", {"hidden": [0.1, 0.2, 0.3]}, "3 numbers.*context_size=2.*raise it to 3"),
        ("escp", {"task": 40}, r"was 40, and n_tasks=40.*set n_tasks above"),
    ],
)
def test_worlds_that_do_not_tell_what_is_needed(
    method: str, info: Any, words: str, tmp_path: Path
) -> None:
    agent = Agent(lambda: Telling(**info), method, preset="small", device="cpu")
    with pytest.raises(ConfigError, match=words):
        agent.learn(10)
    assert agent._trainer.step == 0
    with pytest.raises(ConfigError, match=words):
        agent.learn(10_000, run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    agent.close()


@pytest.mark.parametrize("method", NAMES)
def test_a_rate_cannot_follow_what_another_loss_teaches(method: str) -> None:
    with pytest.raises(ConfigError, match=f"{method} teaches its encoder by another loss"):
        make_learner(method, BOX, **SMALL, lr_context_encoder="auto")


def test_a_task_beyond_those_counted_is_refused_when_it_comes() -> None:
    learner = make_learner("escp", BOX, **SMALL, **ESCP)
    columns = constant_columns({"task": np.float32([5]), "hidden": np.float32([0])}, 2)
    shapes = np.zeros((3, 3), np.float32), np.zeros((2, 2), np.float32), np.zeros(2, np.float32)
    with pytest.raises(ConfigError, match="was 5, and n_tasks=5"):
        learner.observe(Trajectory(*shapes, terminated=False, extras=columns))


@pytest.mark.parametrize("method", NAMES)
def test_settings_of_the_source(method: str) -> None:
    config = configure("Ant-gravity-v0", method=method)
    learner = build_learner(config, Dimensions(27, 8, False), torch.device("cpu"))
    weights = {k: tuple(v.shape) for k, v in learner.weights().items()}
    encoder = "policy.trunk.context_encoder"
    assert weights[f"{encoder}.before.linear.weight"] == (128, 27 + 8)
    assert weights[f"{encoder}.rnn.layers.weight_hh_l0"] == (3 * 64, 64)
    assert weights[f"{encoder}.after.0.weight"] == (2, 64)
    assert weights["policy.head.0.weight"] == (128, 2 + 27)
    assert weights["critic.inside.heads.weights.0"] == (2, 128, 27 + 2 + 8)
    assert weights["critic.inside.heads.weights.1"] == (2, 64, 128)
    assert {(g.name, g.lr) for g in learner.groups["policy"]} == {
        ("context_encoder", 3e-4),
        ("other", 3e-4),
    }
    expected: dict[str, Any] = {
        "lr_critic": 1e-3,
        "lr_alpha": 1e-2,
        "alpha_loss": "exp",
        "tau": 0.005,
    }
    expected |= {"warmup_steps": 4000, "learn_after": 20_000, "target_entropy_scale": 1.5}
    if method == "escp":
        expected |= {"batch_transitions": 256, "context_length": 16, "n_tasks": 40}
        expected |= {"relation_after": 100_000, "kernel_sharpness": 3000.0, "context_noise": 0.01}
        expected |= {"consistency_weight": 50.0, "diversity_weight": 0.004, "mean_tau": 0.005}
    if method == "epi":
        expected["lr_transition"] = 3e-4
        assert weights["transition.heads.weights.0"] == (1, 128, 27 + 2 + 8)
    found = config.flat()
    assert {name: found[name] for name in expected} == expected
    small = configure("Pendulum-gravity-v0", method=method).flat()
    assert small["gamma"] == 0.96 and small["warmup_steps"] == 1000 and small["learn_after"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("method", NAMES)
def test_it_learns_to_swing_up_under_any_gravity(method: str) -> None:
    agent = Agent("Pendulum-gravity-v0", method, device="cpu", eval_every=0, checkpoint_every=0)
    agent.learn(8000)
    assert agent.evaluate(20)[0] > -400
    agent.close()
