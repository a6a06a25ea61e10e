"""RL2 and VariBAD: whole updates by the formulas, what beliefs learn from, and what they find out.

Nothing of the networks is used in the slow updates but their weights.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from slow_updates import (
    BOX,
    DISCRETE,
    Weights,
    Window,
    contexts,
    embedded,
    gru,
    layer,
    make_batch,
    make_learner,
    windows_of,
)
from torch import Tensor
from torch.distributions import Categorical, Normal, TanhTransform, kl_divergence

from resel import Agent
from resel.agent import configure
from resel.data import Batch, Episodes, Moment, ReplayBuffer, Trajectory
from resel.errors import ConfigError
from resel.methods import Learner, build_learner
from resel.methods._beliefs import learn_beliefs
from resel.networks import Dimensions
from resel.tasks import make_env

SIZES: dict[str, Any] = {
    "reward_embedding": 2,
    "context_size": 6,
    "latent_size": 2,
    "decoder_width": 4,
    "decoder_last_width": 3,
    "policy_embedding": 3,
    "lr_vae": 5e-3,
    "gamma": 0.9,
    "num_envs": 4,
}
ON_POLICY = ["rl2", "varibad"]
every_space = pytest.mark.parametrize("dims", [BOX, DISCRETE], ids=["Box", "Discrete"])


def make(method: str, dims: Dimensions = BOX, **changes: Any) -> Any:
    return make_learner(method, dims, **{**SIZES, **changes})


def mlp(weights: Weights, name: str, x: Tensor, activation: Any) -> Tensor:
    """Linear layers with an activation between, numbered as in a Sequential."""
    numbers = sorted(
        int(k.split(".")[-2]) for k in weights if k.startswith(f"{name}.") and "bias" in k
    )
    for number in numbers[:-1]:
        x = activation(layer(weights, f"{name}.{number}", x))
    return layer(weights, f"{name}.{numbers[-1]}", x)


class Slow:
    """Copies of the weights of a learner with optimisers of their own."""

    def __init__(self, learner: Learner) -> None:
        self.learner, self.settings, self.dims = learner, learner.settings, learner.dims
        self.weights: dict[str, dict[str, Tensor]] = {}
        self.adams = {}
        for name, network in learner.networks.items():
            own = {k: v.detach().clone().requires_grad_() for k, v in network.named_parameters()}
            self.weights[name] = own
            self.adams[name] = torch.optim.Adam(own.values(), getattr(self.settings, f"lr_{name}"))
        self.target = copy.deepcopy(self.weights.get("critic", {}))
        if self.target:
            pairs = zip(self.target.values(), learner.targets["critic"].parameters(), strict=True)
            for mine, other in pairs:
                mine.data.copy_(other)

    def descend(self, name: str, loss: Tensor, *longest: tuple[str, float]) -> None:
        """One step of Adam; gradients of names with such a beginning are shortened together."""
        self.adams[name].zero_grad()
        loss.backward()
        for beginning, length in longest:
            rows = [
                w
                for k, w in self.weights[name].items()
                if k.startswith(tuple(beginning.split() or [""]))
            ]
            torch.nn.utils.clip_grad_norm_(rows, length)
        self.adams[name].step()

    def beliefs(self, window: Window) -> list[Tensor]:
        vae = self.weights["vae"]
        return [layer(vae, "belief", h) for h in contexts(vae, "trunk", window)]

    def learn_beliefs(self, windows: list[Window], noise: Tensor) -> Tensor:
        settings, vae = self.settings, self.weights["vae"]
        total: Any = 0.0
        for window in windows:
            means, log_vars = zip(*(b.chunk(2) for b in self.beliefs(window)), strict=True)
            for t, (mean, log_var) in enumerate(zip(means, log_vars, strict=True)):
                now, before = Normal(mean, (log_var / 2).exp()), Normal(0 * mean, 1 + 0 * mean)
                if t:
                    before = Normal(means[t - 1], (log_vars[t - 1] / 2).exp())
                total = total + settings.kl_weight * kl_divergence(now, before).sum()
                z = mean + now.scale * noise[window.row, window.begin + t]
                for s in window.steps:
                    after = window.observations[s + 1]
                    step = [window.observations[s], window.actions[s]]
                    wanted = after
                    if settings.decodes == "reward":
                        step.append(after)
                        wanted = window.rewards[s : s + 1]
                    told = mlp(vae, "decoder", torch.cat([z, *step]), torch.relu)
                    total = total + ((told - wanted) ** 2).sum() / len(wanted)
        loss = total / len(windows)
        longest = getattr(settings, "max_vae_gradient_norm", None)
        parts = (("trunk belief", longest), ("decoder", longest)) if longest else ()
        self.descend("vae", loss, *parts)
        return loss

    def read(self, window: Window) -> list[Tensor]:
        """What the heads of an on-policy method read, at o_0 .. o_L."""
        policy = self.weights["policy"]
        if "vae" not in self.weights:
            inputs = embedded(policy, [f"embeddings.{i}.0" for i in range(3)], window)
            hidden = gru(policy, "encoder.layers", inputs)
            return [torch.relu(layer(policy, "after.0", h)) for h in hidden]
        scale: Any = self.learner.policy.scale  # type: ignore[union-attr]
        found = []
        for observation, belief in zip(window.observations, self.beliefs(window), strict=True):
            x = torch.cat([observation, belief.detach()])
            if scale.enabled:
                x = ((x - scale.mean) / (scale.deviation + 1e-6)).clamp(-10, 10)
            parts = x[: len(observation)], x[len(observation) :]
            both = [
                torch.tanh(layer(policy, f"embeddings.{i}", part)) for i, part in enumerate(parts)
            ]
            found.append(torch.cat(both))
        return found

    def judged(self, window: Window) -> tuple[list[Any], list[Tensor]]:
        policy, read = self.weights["policy"], self.read(window)
        outputs = [mlp(policy, "head", x, torch.tanh) for x in read]
        if self.dims.discrete:
            distributions: list[Any] = [Categorical(logits=x) for x in outputs]
        else:
            bounded = getattr(self.learner.config.network, "bounded_mean", False)
            outputs = [torch.tanh(x) if bounded else x for x in outputs]
            distributions = [Normal(x, policy["log_std"].exp()) for x in outputs]
        return distributions, [mlp(policy, "value_head", x, torch.tanh)[0] for x in read]

    def log_prob(self, distribution: Any, action: Tensor) -> Tensor:
        if self.dims.discrete:
            return distribution.log_prob(action.argmax())  # type: ignore[no-any-return]
        return distribution.log_prob(action).sum()  # type: ignore[no-any-return]

    def learn_ppo(self, windows: list[Window]) -> None:
        """One pass over all of it, in which the ratio is 1 but has a gradient."""
        settings, clip = self.settings, self.settings.clip
        known = []
        for window in windows:
            distributions, values = self.judged(window)
            later = 0.0
            for t in reversed(window.steps):
                goes_on = 0.0 if window.terminated[t] else values[t + 1].item()
                delta = float(window.rewards[t]) + settings.gamma * goes_on - values[t].item()
                later = delta + settings.gamma * settings.gae_lambda * later
                known.append((distributions[t], window.actions[t], values[t], later))
                later = later if t else 0.0
        advantages = np.array([row[3] for row in known])
        scaled = (advantages - advantages.mean()) / (advantages.std(ddof=1) + 1e-5)
        total: Any = 0.0
        for (distribution, action, value, advantage), a in zip(known, scaled, strict=True):
            log_prob = self.log_prob(distribution, action)
            ratio = (log_prob - log_prob.detach()).exp()
            policy_loss = -torch.minimum(ratio * a, ratio.clamp(1 - clip, 1 + clip) * a)
            wrong = (value - (advantage + value.item())).abs()
            value_loss = 0.5 * (0.5 * wrong**2 if wrong < 1 else wrong - 0.5)
            entropy = distribution.entropy().sum()
            total = total + policy_loss + settings.value_coefficient * value_loss
            total = total - settings.entropy_coefficient * entropy
        self.descend("policy", total / len(known), ("", settings.max_gradient_norm))

    def q(self, critic: Weights, seen: Tensor, action: Tensor | None) -> list[Tensor]:
        found = []
        x = seen if action is None else torch.cat([seen, action])
        layers = sum(".weights." in k for k in critic)
        for e in range(2):
            y = x
            for i in range(layers):
                y = (
                    critic[f"inside.heads.weights.{i}"][e] @ y
                    + critic[f"inside.heads.biases.{i}"][e]
                )
                y = torch.relu(y) if i < layers - 1 else y
            found.append(y)
        return found

    def drawn(self, seen: Tensor, noise: Tensor) -> tuple[Any, Tensor, Tensor]:
        """Actions, their log-probabilities and weights: one sample, or all there are."""
        output = mlp(self.weights["policy"], "inside.head", seen, torch.relu)
        if self.dims.discrete:
            log_probs = torch.log_softmax(output, -1)
            return None, log_probs, log_probs.exp()
        log_std, mean = output.chunk(2)
        raw = mean + log_std.clamp(-20, 2).exp() * noise
        slope = TanhTransform().log_abs_det_jacobian(raw, torch.tanh(raw))
        density = (Normal(mean, log_std.clamp(-20, 2).exp()).log_prob(raw) - slope).sum()
        return torch.tanh(raw), density[None], torch.ones(1, dtype=torch.float64)

    def learn_sac(self, windows: list[Window], noises: tuple[Tensor, Tensor]) -> None:
        settings, count = self.settings, sum(len(w.rewards) for w in windows)
        seen = [
            [
                torch.cat([o, b.detach()])
                for o, b in zip(w.observations, self.beliefs(w), strict=True)
            ]
            for w in windows
        ]
        loss: Any = 0.0
        for window, read in zip(windows, seen, strict=True):
            for t in window.steps:
                with torch.no_grad():
                    noise = noises[0][window.row, window.begin + t + 1]
                    action, log_prob, weight = self.drawn(read[t + 1], noise)
                    one, two = self.q(self.target, read[t + 1], action)
                    value = (weight * (torch.minimum(one, two) - settings.alpha * log_prob)).sum()
                y = window.rewards[t] + (0 if window.terminated[t] else settings.gamma * value)
                taken = None if self.dims.discrete else window.actions[t]
                index = window.actions[t].argmax() if self.dims.discrete else 0
                for q in self.q(self.weights["critic"], read[t], taken):
                    loss = loss + (q[index] - y) ** 2
        self.descend("critic", loss / count)
        with torch.no_grad():
            for name, target in self.target.items():
                target.copy_(
                    (1 - settings.tau) * target + settings.tau * self.weights["critic"][name]
                )
        total: Any = 0.0
        for window, read in zip(windows, seen, strict=True):
            for t in window.steps:
                noise = noises[1][window.row, window.begin + t]
                action, log_prob, weight = self.drawn(read[t], noise)
                one, two = self.q(self.weights["critic"], read[t], action)
                term = weight * (settings.alpha * log_prob - torch.minimum(one, two))
                total = total + term.sum()
        self.descend("policy", total / count)

    def check(self) -> None:
        """The same weights."""
        for name, own in self.weights.items():
            theirs = dict(self.learner.networks[name].named_parameters())
            for key, value in own.items():
                torch.testing.assert_close(
                    theirs[key], value, rtol=1e-7, atol=1e-9, msg=lambda m, k=key: f"{k}: {m}"
                )


def noise_of(learner: Learner, batch: Batch, *sizes: int) -> list[Tensor]:
    """What the learner will draw, one after another."""
    generator = torch.Generator().set_state(learner.generators["noise"].get_state())
    return [
        torch.randn((*batch.mask.shape, size), generator=generator, dtype=torch.float64)
        for size in sizes
    ]


@every_space
def test_an_update_of_rl2_is_the_formulas(dims: Dimensions) -> None:
    learner = make("rl2", dims)
    slow = Slow(learner)
    batch = make_batch(learner, 0)
    slow.learn_ppo(windows_of(batch, dims))
    learner.update(batch)
    slow.check()


@every_space
@pytest.mark.parametrize("scales", [True, False])
def test_an_update_of_varibad_is_the_formulas(dims: Dimensions, scales: bool) -> None:
    learner = make("varibad", dims, normalize_beliefs=scales, bounded_mean=scales)
    learner.policy.scale.update(np.random.default_rng(0).normal(1, 3, (9, 7)).astype(np.float32))
    slow = Slow(learner)
    batch = make_batch(learner, 0)
    (noise,) = noise_of(learner, batch, 2)
    expected = slow.learn_beliefs(windows_of(batch, dims), noise)
    slow.learn_ppo(windows_of(batch, dims))
    metrics = learner.update(batch, want_metrics=True)
    assert metrics["vae_loss"].item() == pytest.approx(expected.item(), rel=1e-9)
    slow.check()


@every_space
@pytest.mark.parametrize("decodes", ["reward", "observation"])
def test_updates_of_off_policy_varibad_are_the_formulas(dims: Dimensions, decodes: str) -> None:
    learner = make("varibad-off", dims, decodes=decodes, vae_every=2, batch_steps=12)
    slow = Slow(learner)
    for number in range(2):
        batch = make_batch(learner, number)
        windows = windows_of(batch, dims)
        actions = () if dims.discrete else (dims.action, dims.action)
        noises = noise_of(learner, batch, *((2,) if number == 0 else ()), *actions)
        if number == 0:
            slow.learn_beliefs(windows, noises.pop(0))
        unused = torch.zeros(*batch.mask.shape, 1)
        slow.learn_sac(windows, (noises[0], noises[1]) if noises else (unused, unused))
        metrics = learner.update(batch, want_metrics=True)
        assert ("vae_loss" in metrics) == (number == 0)
        slow.check()


def test_a_part_of_a_trial_is_drawn_without_what_does_not_count() -> None:
    learner = make("varibad-off", elbo_terms=3, decoded_steps=2)
    batch = make_batch(learner, 0)
    seen: list[tuple[int, int]] = []
    decode = learner.networks["vae"].decode
    learner.networks["vae"].decode = lambda z, *steps: (
        seen.append((z.shape[1], steps[0].shape[1])) or decode(z, *steps)
    )
    metrics = learner.update(batch, want_metrics=True)
    assert seen == [(3, 2)] and metrics["vae_loss"].isfinite()


def test_no_gradient_of_the_policy_reaches_the_beliefs() -> None:
    off = make("varibad-off", vae_every=5, batch_steps=12)
    off.update(make_batch(off, 0))
    before = copy.deepcopy(off.networks["vae"].state_dict())
    for number in range(1, 5):
        off.update(make_batch(off, number))
    after = off.networks["vae"].state_dict()
    assert all(torch.equal(before[k], after[k]) for k in before)
    on = make("varibad")
    judged = on._judged(make_batch(on, 0))
    before = copy.deepcopy(on.networks["vae"].state_dict())
    on.update(judged)
    after = on.networks["vae"].state_dict()
    assert all(torch.equal(before[k], after[k]) for k in before)


def quick(method: str, **changes: Any) -> Any:
    """Settings of a small run on the two goals."""
    small: dict[str, Any] = {
        "size": "tiny",
        "rollout_steps": 20,
        "epochs": 2,
        "minibatches": 2,
        "vae_after": 100,
        "vae_updates": 2,
        "warmup_steps": 0 if method in ON_POLICY or method == "varibad" else 80,
        "num_envs": 4,
        "eval_every": 0,
        "checkpoint_every": 0,
        "log_every": 80,
        "buffer_steps": 5000,
        "device": "cpu",
    }
    if method not in ON_POLICY:
        small["updates_per_step"] = 0.1
    config = configure("TwoGoals-v0", method=method, preset="small")
    known = {k: v for k, v in {**small, **changes}.items() if k == "size" or k in config.flat()}
    return configure("TwoGoals-v0", method=method, preset="small", **known)


def test_trials_come_after_the_parts_of_a_rollout() -> None:
    agent = Agent("TwoGoals-v0", config=quick("varibad"))
    learner: Any = agent.learner
    kinds: list[str] = []
    update = learner.update
    learner.update = lambda batch, **options: (
        kinds.append("beliefs" if "trials" in batch.extras else "policy")
        or update(batch, **options)
    )
    agent.learn(240)  # three rollouts; trials of 40 steps end with the second
    assert kinds == ["policy"] * 8 + ["beliefs"] * 2 + ["policy"] * 4 + ["beliefs"] * 2 or (
        kinds == ["policy"] * 4 + (["policy"] * 4 + ["beliefs"] * 2) * 2
    )
    assert learner.schedule.due(Moment(0, 80, 0, 99)) == 4
    assert learner.schedule.due(Moment(0, 80, 0, 100)) == 6
    agent.close()


@pytest.mark.parametrize("method", [*ON_POLICY, "varibad-off"])
def test_resumed_in_the_middle_of_a_rollout_and_of_a_trial(method: str) -> None:
    agents = [Agent("TwoGoals-v0", config=quick(method)) for _ in range(2)]
    agents[0].learn(300)
    tensors, documents = copy.deepcopy(agents[0]._trainer.checkpoint())
    trajectories = agents[0]._trainer.buffer

    def load(index: Any, buffer: Any) -> None:
        parts = [part.ravel() for e in trajectories for part in trajectories.blocks(e)]
        held, at = np.concatenate(parts), 0

        def read(block: Any) -> None:
            nonlocal at
            block[:] = held[at : at + block.size].reshape(block.shape)
            at += block.size

        buffer.restore(buffer.read_index(index), read)

    agents[1]._trainer.restore(tensors, documents, load)
    for agent in agents:
        agent._trainer.train(180)
    one, two = (agent.learner.weights() for agent in agents)
    assert agents[0].learner.updates == agents[1].learner.updates > 0
    assert all(torch.equal(one[name], two[name]) for name in one)
    for agent in agents:
        agent.close()


class Silent(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Tells nothing of its task."""

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        return self.env.reset(**options)[0], {}


@pytest.mark.parametrize("method", [*ON_POLICY, "varibad-off"])
def test_what_a_task_tells_of_itself_changes_nothing(method: str, tmp_path: Path) -> None:
    found = []
    for wrapper in (lambda env: env, Silent):
        agent = Agent(
            lambda wrapper=wrapper: wrapper(make_env("TwoGoals-v0")), config=quick(method)
        )
        agent.learn(320)
        assert agent.learner.updates
        agent.save(tmp_path / "agent")
        again = Agent.load(tmp_path / "agent", env=lambda: make_env("TwoGoals-v0"), device="cpu")
        found.append({k: v.clone() for k, v in again.learner.weights().items()})
        columns = agent._trainer.buffer.column_sizes
        assert columns == ({} if wrapper is Silent else {"hidden": 1, "task": 1})
        for one in (agent, again):
            one.close()
    assert found[0].keys() == found[1].keys()
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


PLACES = torch.tensor([[-0.5, 0.5, 0.0], [0.5, 0.5, 0.0]])


def tried(trials: int, seed: int) -> ReplayBuffer:
    """Trials of whoever goes to one place or the other, as it likes."""
    env, rng = make_env("TwoGoals-v0"), np.random.default_rng(seed)
    buffer = ReplayBuffer(40 * trials, 3, 2, {"task": 1})
    for number in range(trials):
        seen, actions, rewards = [env.reset(options={"task": number % 2})[0]], [], []
        position = np.zeros(2)
        for t in range(40):
            if t % 10 == 0:
                aim = PLACES[rng.integers(2)][:2].numpy()
            wobble = rng.uniform(-0.1, 0.1, 2)
            actions.append(np.clip(aim - position + wobble, -0.1, 0.1).astype(np.float32))
            observation, reward, *_ = env.step(actions[-1])
            seen.append(observation)
            rewards.append(reward)
            position = np.zeros(2) if t == 19 else observation[:2]
        task = np.full((41, 1), number % 2, np.float32)
        moved = np.stack(seen).astype(np.float32), 10 * np.stack(actions)
        buffer.add(Trajectory(*moved, np.float32(rewards), terminated=False, extras={"task": task}))
    return buffer


def foretold(learner: Any, batch: Batch) -> float:
    """How often the last belief of a trial foretells more at the place that pays."""
    vae = learner.networks["vae"]
    with torch.no_grad():
        z = vae(learner.inputs(batch)[0], batch.is_first)[:, -1:].chunk(2, -1)[0]
        places = PLACES.expand(len(z), -1, -1)
        told = vae.decode(z, places, torch.zeros(len(z), 2, 2), places)  # (trials, 1, 2, 1)
    return float((told[:, 0, :, 0].argmax(1) == batch.extras["task"][:, 0, 0]).float().mean())


def test_beliefs_find_the_goal_of_a_trial() -> None:
    config = quick("varibad-off", lr_vae=1e-2)
    learner = build_learner(config, Dimensions(3, 2, discrete=False), torch.device("cpu"))
    buffer, rng = tried(80, seed=5), np.random.default_rng(0)
    fresh = Episodes(40).draw(tried(40, seed=6), rng, len)
    assert 0.2 < foretold(learner, fresh) < 0.8
    for _ in range(350):
        learn_beliefs(learner, Episodes(4).draw(buffer, rng, len), want_metrics=False)
    assert foretold(learner, fresh) > 0.9


@pytest.mark.parametrize(
    ("method", "changes", "said"),
    [
        ("varibad", {"lr_context_encoder": "auto"}, "varibad teaches its encoder by another loss"),
        (
            "varibad-off",
            {"lr_context_encoder": "auto"},
            "varibad-off teaches its encoder by another",
        ),
        ("rl2", {"value_loss": "cubed"}, "value_loss"),
        ("varibad", {"decodes": "task"}, "decodes"),
        ("varibad", {"batch_trials": 0}, "batch_trials"),
        ("varibad-off", {"elbo_terms": 0}, "elbo_terms"),
    ],
)
def test_refused(method: str, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make(method, **changes)


def test_a_setting_of_another_method_is_refused() -> None:
    with pytest.raises(ConfigError, match="vae_every"):
        configure("TwoGoals-v0", method="rl2", vae_every=3)
