"""MF-GPT and MF-LSTM: updates done again the slow way, and what the critic's target is."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from slow_steps import BOX, DISCRETE, SlowMethod, make_batch, make_learner
from torch import Tensor

from resel import Agent
from resel.agent import configure
from resel.data import Batch, Episodes
from resel.errors import ConfigError
from resel.methods import Learner
from resel.networks import Dimensions, dropouts

GPT = {
    "method": "mf-gpt",
    "n_layers": 2,
    "n_heads": 2,
    "expansion": 2,
    "dropout": 0.0,
    "observation_embedding": 5,
    "width": 6,
    "longest_episode": 10,
    "action_embedding": 2,
    "reward_embedding": 1,
}
LSTM = {"method": "mf-lstm", "observation_embedding": 5, "width": 6}


def linear(layer: Any, x: Tensor) -> Tensor:
    return layer.weight @ x + layer.bias


def norm(layer: Any, x: Tensor) -> Tensor:
    scaled = (x - x.mean()) / (x.var(unbiased=False) + 1e-5).sqrt()
    return scaled * layer.weight + layer.bias


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gpt(rnn: Any, tokens: list[Tensor]) -> list[Tensor]:
    """Radford et al. 2019 with the sines of Vaswani et al. 2017."""
    xs, width = [], rnn.norm.weight.numel()
    for t, token in enumerate(tokens):
        x = linear(rnn.inward, token)
        waves = [t / 10_000 ** (2 * (i // 2) / width) for i in range(width)]
        sines = [math.sin(w) if i % 2 == 0 else math.cos(w) for i, w in enumerate(waves)]
        xs.append(x + torch.tensor(sines, dtype=torch.float64))
    for block in rnn.blocks:
        parts = [
            linear(block.query_key_value, norm(block.before_attention, x)).chunk(3) for x in xs
        ]
        after = []
        for t, x in enumerate(xs):
            attended = []
            for head in range(2):
                query, key, value = (
                    [part[kind].chunk(2)[head] for part in parts[: t + 1]] for kind in range(3)
                )
                scores = torch.stack([query[t] @ k / math.sqrt(len(k)) for k in key])
                shares = scores.exp() / scores.exp().sum()
                attended.append(sum(s * v for s, v in zip(shares, value, strict=True)))
            x = x + linear(block.attended, torch.cat(attended))  # type: ignore[arg-type]
            hidden = gelu(linear(block.up, norm(block.before_feed_forward, x)))
            after.append(x + linear(block.down, hidden))
        xs = after
    return [norm(rnn.norm, x) for x in xs]


def lstm(rnn: Any, tokens: list[Tensor]) -> list[Tensor]:
    layers, found = rnn.layers, []
    h = c = torch.zeros(layers.hidden_size, dtype=torch.float64)
    for token in tokens:
        gates = layers.weight_ih_l0 @ token + layers.bias_ih_l0
        i, f, g, o = (gates + layers.weight_hh_l0 @ h + layers.bias_hh_l0).chunk(4)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        found.append(h)
    return found


class SlowShared(SlowMethod):
    """Ni et al. 2023, episode by episode."""

    def contexts(self, batch: Batch) -> dict[tuple[int, int], Tensor]:
        """By row and slot."""
        trunk: Any = self.networks["policy"].trunk
        sizes, found = self.learner.config.network, {}
        rnn = trunk.context_encoder.rnn
        for row in range(len(batch.mask)):
            starts = [*batch.is_first[row].nonzero().flatten().tolist(), batch.mask.shape[1]]
            for begin, end in itertools.pairwise(starts):
                tokens = []
                for t in range(begin, end):
                    parts = [batch.observation[row, t]]
                    past = t > begin
                    fed = self.dims.fed_back(batch.action)[row, t - 1] * past
                    parts += [fed] if sizes.action_embedding else []
                    parts += [batch.reward[row, t - 1 :][:1] * past] if sizes.reward_input else []
                    pairs = zip(trunk.embeddings, parts, strict=True)
                    tokens.append(torch.cat([linear(e.linear, part) for e, part in pairs]))
                read = gpt if hasattr(rnn, "blocks") else lstm
                for t, context in zip(range(begin, end), read(rnn, tokens), strict=True):
                    found[row, t] = context
        return found

    def soft(self, critic: Any, context: Tensor, output: Tensor, noise: Tensor) -> Any:
        """What critics make of the policy's action, without and with the entropy."""
        alpha = self.log_alpha.exp()
        if self.dims.discrete:
            log_probs = torch.log_softmax(output, -1)
            q = torch.stack(self.q(critic, context, None)).min(0).values
            return (log_probs.exp() * (q - alpha * log_probs)).sum()
        action, log_prob = self.sampled(output, noise)
        return torch.cat(self.q(critic, context, action)).min() - alpha * log_prob

    def update(self, batch: Batch) -> dict[str, float]:
        settings, generator = self.settings, self.generator()
        noises = [self.noise(batch, generator) for _ in range(2)]
        context, steps = self.contexts(batch), batch.mask.nonzero().tolist()
        policy, critic = self.networks["policy"], self.networks["critic"]
        critic_loss: Any = 0.0
        policy_loss: Any = 0.0
        for r, t in steps:
            with torch.no_grad():
                after = context[r, t + 1]
                output = self.policy_output(policy, after)
                value = self.soft(self.targets["critic"], after, output, noises[0][r, t + 1])
                ended = bool(batch.terminated[r, t])
                y = settings.reward_scale * batch.reward[r, t]
                y = y + (0 if ended else settings.gamma * value)
            action = batch.action[r, t]
            for q in self.q(critic, context[r, t], None if self.dims.discrete else action):
                taken = q[int(action)] if self.dims.discrete else q[0]
                critic_loss = critic_loss + 0.5 * (taken - y) ** 2
            output = self.policy_output(policy, context[r, t])
            for parameter in critic.parameters():
                parameter.requires_grad_(False)
            soft = self.soft(critic, context[r, t].detach(), output, noises[1][r, t])
            policy_loss = policy_loss - soft
            for parameter in critic.parameters():
                parameter.requires_grad_(True)
        for adam in self.adams.values():
            adam.zero_grad()
        ((critic_loss + policy_loss) / len(steps)).backward()
        for adam in self.adams.values():
            adam.step()
        self.follow()
        return {
            "critic_loss": critic_loss.item() / len(steps),
            "policy_loss": policy_loss.item() / len(steps),
        }


@pytest.mark.parametrize("dims", [BOX, DISCRETE], ids=["box", "discrete"])
@pytest.mark.parametrize("method", [GPT, LSTM], ids=["gpt", "lstm"])
def test_updates_are_the_formulas(method: dict[str, Any], dims: Dimensions) -> None:
    learner = make_learner(dims, **method, critic_entropy=True)
    reference = SlowShared(learner)
    for number in range(2):
        batch = make_batch(dims, number, packed=True)
        expected = reference.update(batch)
        metrics = learner.update(batch, want_metrics=True)
        for name, value in expected.items():
            assert metrics[name].item() == pytest.approx(value, rel=1e-9, abs=1e-11), name
        assert metrics["alpha"].item() == pytest.approx(0.1)
        reference.check()


def learner_with(dropout: float) -> Learner:
    return make_learner(DISCRETE, **{**GPT, "dropout": dropout})


def test_the_targets_are_copies_of_heads_alone_and_learn_nothing_of_the_encoder() -> None:
    learner = learner_with(0.0)
    names = {name for name in learner.weights() if name.startswith("target_")}
    assert names and all(name.startswith("target_critic.heads.") for name in names)
    assert not any("trunk" in name for name in learner.weights() if name.startswith("critic."))


def test_dropout_is_for_learning_alone_and_its_chance_is_saved() -> None:
    learner, batch = learner_with(0.4), make_batch(DISCRETE, 0, packed=True)
    assert learner.generators["dropout"] is dropouts(learner.policy)[0].generator
    inputs, _ = learner.inputs(batch)

    def read() -> Tensor:
        return learner.policy.context(inputs, batch.is_first)  # type: ignore[return-value]

    with torch.no_grad():
        sure = read()
        assert torch.equal(sure, read())
    state = learner.generators["dropout"].get_state()
    first = read()
    assert not torch.equal(first, read()) and not torch.equal(first, sure)
    learner.generators["dropout"].set_state(state)
    assert torch.equal(first, read())
    assert "dropout" not in learner_with(0.0).generators


def test_dropout_sets_its_share_to_zero_and_keeps_the_mean() -> None:
    (module, *_) = dropouts(learner_with(0.4).policy)
    x = torch.ones(20_000, dtype=torch.float64, requires_grad=True)
    y = module(x)
    assert (y == 0).double().mean().item() == pytest.approx(0.4, abs=0.02)
    assert y.max().item() == pytest.approx(1 / 0.6)


def test_attention_with_dropout_is_the_same_attention() -> None:
    """Where it leaves nothing out: torch's own attention against ours."""
    learner, batch = learner_with(1e-12), make_batch(DISCRETE, 0, packed=True)
    inputs, _ = learner.inputs(batch)
    learned = learner.policy.context(inputs, batch.is_first)
    with torch.no_grad():
        torch.testing.assert_close(learned, learner.policy.context(inputs, batch.is_first))


@pytest.mark.parametrize(
    ("method", "length", "expected"),
    [
        ("mf-gpt", 60, {"n_layers": 1, "n_heads": 1, "warmup_steps": 850, "width": 100}),
        ("mf-gpt", 250, {"n_layers": 2, "n_heads": 2, "warmup_steps": 2750, "dropout": 0.1}),
        ("mf-gpt", 500, {"n_layers": 1, "longest_episode": 1000, "expansion": 4}),
        ("mf-gpt", 60, {"alpha": 0.1, "updates_per_step": 0.25, "batch_episodes": 64}),
        ("mf-gpt", 60, {"lr_policy": 3e-4, "lr_critic": 3e-4, "gamma": 0.99, "tau": 0.005}),
        ("mf-gpt", 60, {"image_channels": 8, "image_kernel": 2, "image_features": 100}),
        ("mf-lstm", 60, {"n_layers": 1, "width": 128, "initialisation": "orthogonal"}),
        ("mf-lstm", 120, {"n_layers": 2, "warmup_steps": 1450, "head_width": 256}),
    ],
)
def test_settings_of_the_source(method: str, length: int, expected: dict[str, Any]) -> None:
    found = configure(f"KeyToDoor-{length}-v0", method=method).flat()
    assert {name: found[name] for name in expected} == expected


def test_a_batch_is_so_many_episodes_and_the_policy_cannot_wait() -> None:
    learner = make_learner(DISCRETE, **LSTM, batch_episodes=3)
    assert learner.sampler == Episodes(3)
    with pytest.raises(ConfigError, match="policy_delay=2: policy and critics learn from one loss"):
        configure("", method="mf-lstm", policy_delay=2)


def test_episodes_that_are_longer_than_it_can_read_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"200 steps, .* gpt reads 100 .*longest_episode"):
        Agent("Pendulum-V-v0", "mf-gpt", longest_episode=100)
