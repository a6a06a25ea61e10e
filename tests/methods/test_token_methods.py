"""SAC-Transformer and GPIDE-ESS: updates by the equations, settings, and what is refused.

Both encoders are written out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gymnasium
import pytest
import torch
from slow_updates import (
    BOX,
    DISCRETE,
    SlowSAC,
    Weights,
    Window,
    layer,
    make_batch,
    make_learner,
)
from torch import Tensor

from resel import Agent
from resel.agent import configure
from resel.errors import ConfigError
from resel.methods import Learner, get_method
from resel.networks import Dimensions
from resel.tasks import all_tasks, make_env

SMALL: dict[str, Any] = {
    "difference_embedding": 3,
    "reward_embedding": 2,
    "width": 6,
    "n_layers": 2,
    "n_heads": 3,
    "smoothing_width": 2,
    "window": 6,
}
ALPHAS = [0.1, 0.25, 0.5, 0.9, 1.0]


def kinds_of(window: Window) -> list[list[Tensor]]:
    """(o_{t-1}, a_{t-1}, r_{t-1}, o_t - o_{t-1}) at o_0 .. o_L; the first step has no past."""
    found = []
    for t, now in enumerate(window.observations):
        before = window.observations[t - 1] if t else now
        action = window.actions[t - 1] if t else torch.zeros_like(window.actions[0])
        reward = window.rewards[t - 1 : t] if t else torch.zeros(1, dtype=torch.float64)
        found.append([before, action, reward, now - before])
    return found


def normalized(weights: Weights, norm: str, x: Tensor, whole: Tensor) -> Tensor:
    """x by the mean and variance of all steps (N, features) of the batch."""
    scaled = (x - whole.mean(0)) / (whole.var(0, unbiased=False) + 1e-5).sqrt()
    return scaled * weights[f"{norm}.weight"] + weights[f"{norm}.bias"]


def tokens(weights: Weights, trunk: str, window: Window) -> list[Tensor]:
    """The last kind or all through batch normalisation, then a linear layer for each."""
    sizes = [len(part) for part in kinds_of(window)[0]]
    numbers = len(weights[f"{trunk}.norm.weight"])
    whole = torch.stack([torch.cat(kinds) for other in window.batch for kinds in kinds_of(other)])
    found = []
    for kinds in kinds_of(window):
        x = torch.cat(kinds)
        tail = normalized(weights, f"{trunk}.norm", x[-numbers:], whole[:, -numbers:])
        parts = torch.cat([x[:-numbers], tail]).split(sizes)
        embedded = [
            layer(weights, f"{trunk}.embeddings.{i}.linear", part) for i, part in enumerate(parts)
        ]
        found.append(torch.cat(embedded))
    return found


def layer_norm(weights: Weights, name: str, x: Tensor) -> Tensor:
    scaled = (x - x.mean()) / (x.var(unbiased=False) + 1e-5).sqrt()
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def transformer(weights: Weights, trunk: str, window: Window) -> list[Tensor]:
    rnn, heads = f"{trunk}.context_encoder.rnn", SMALL["n_heads"]
    xs = [layer(weights, f"{rnn}.inward", token) for token in tokens(weights, trunk, window)]
    width = len(xs[0])
    for t, x in enumerate(xs):
        waves = [t / 10_000 ** (2 * (i // 2) / width) for i in range(width)]
        sines = [math.sin(w) if i % 2 == 0 else math.cos(w) for i, w in enumerate(waves)]
        xs[t] = x + torch.tensor(sines, dtype=torch.float64)
    for number in range(SMALL["n_layers"]):
        block = f"{rnn}.blocks.{number}"
        normed = [layer_norm(weights, f"{block}.before_attention", x) for x in xs]
        parts = [layer(weights, f"{block}.query_key_value", x).chunk(3) for x in normed]
        after = []
        for t, x in enumerate(xs):
            attended = []
            for head in range(heads):
                query, keys, values = (
                    [part[kind].chunk(heads)[head] for part in parts[: t + 1]] for kind in range(3)
                )
                scores = torch.stack([query[t] @ key / math.sqrt(len(key)) for key in keys])
                shares = scores.exp() / scores.exp().sum()
                attended.append(sum(s * v for s, v in zip(shares, values, strict=True)))
            x = x + layer(weights, f"{block}.attended", torch.cat(attended))
            hidden = layer(
                weights, f"{block}.up", layer_norm(weights, f"{block}.before_feed_forward", x)
            )
            after.append(x + layer(weights, f"{block}.down", torch.relu(hidden)))
        xs = after
    return [torch.tanh(x) for x in xs]


def mixed(weights: Weights, trunk: str, window: Window) -> list[Tensor]:
    """All heads side by side: five moving averages and a sum."""
    maps = weights[f"{trunk}.context_encoder.rnn.maps.weight"]
    values = [(maps @ token).chunk(6) for token in tokens(weights, trunk, window)]
    found = []
    for t in range(len(values)):
        heads = []
        for head, alpha in enumerate(ALPHAS):
            shares = [alpha * (1 - alpha) ** (t - i) for i in range(t + 1)]
            total = sum(share * values[i][head] for i, share in enumerate(shares))
            heads.append(total / sum(shares))
        heads.append(sum(values[i][5] for i in range(t + 1)))
        found.append(torch.cat(heads))
    return found


def smoothing(weights: Weights, trunk: str, window: Window) -> list[Tensor]:
    rnn = f"{trunk}.context_encoder.rnn"
    whole = torch.stack([x for other in window.batch for x in mixed(weights, trunk, other)])
    return [
        torch.tanh(layer(weights, f"{rnn}.out", normalized(weights, f"{rnn}.norm", x, whole)))
        for x in mixed(weights, trunk, window)
    ]


WRITTEN_OUT: dict[str, Callable[[Weights, str, Window], list[Tensor]]] = {
    "sac-transformer": transformer,
    "gpide-ess": smoothing,
}
every_one = pytest.mark.parametrize("method", WRITTEN_OUT)


def learner_of(method: str, dims: Dimensions = BOX, **changes: Any) -> Learner:
    small = {**SMALL, "batch_windows": 2, "context_length": 4, "gamma": 0.9}
    own = configure("", method=method).flat()
    return make_learner(method, dims, **{k: v for k, v in small.items() if k in own}, **changes)


@pytest.mark.parametrize(
    ("method", "dims"),
    [("sac-transformer", BOX), ("gpide-ess", BOX), ("gpide-ess", DISCRETE)],
    ids=["sac-transformer", "gpide-ess", "gpide-ess-discrete"],
)
def test_updates_are_what_the_equations_say(method: str, dims: Dimensions) -> None:
    learner = learner_of(method, dims)
    slow = SlowSAC(learner, WRITTEN_OUT[method])
    batch = make_batch(learner, seed=0)
    slow.update(batch)
    learner.update(batch)
    slow.assert_equals()


@every_one
def test_statistics_follow_the_steps_that_are_taken(method: str) -> None:
    """Those of policy and critics, of what acting then sees; a target never acts."""
    learner = learner_of(method)
    before = {k: v.clone() for k, v in learner.weights().items() if "running" in k}
    learner.update(make_batch(learner, 0))
    after = learner.weights()
    moved = {k for k, v in before.items() if not torch.equal(v, after[k])}
    assert moved == {k for k in before if not k.startswith("target_")} != set()


@every_one
def test_acting_sees_the_window_alone(method: str) -> None:
    """Behind 6 steps the older ones are forgotten: a window of the newest tokens says the same."""
    learner = learner_of(method)
    trunk: Any = learner.networks["policy"].trunk
    encoder = trunk.context_encoder.rnn
    rng = torch.Generator().manual_seed(0)
    inputs = encoder.maps.in_features if method == "gpide-ess" else encoder.inward.in_features
    x = torch.randn(2, 15, inputs, generator=rng, dtype=torch.float64)
    encoder.eval()
    state = encoder.initial_state(2)
    for t in range(15):
        y, state = encoder.step(x[:, t], state)
        newest = x[:, max(0, t - 5) : t + 1]
        firsts = torch.zeros(newest.shape[:2], dtype=torch.bool)
        torch.testing.assert_close(y, encoder(newest, firsts)[:, -1])


@every_one
def test_settings_of_the_source(method: str) -> None:
    found = configure("WalkerBLT-P-v0", method=method)
    settings, sizes = found.algorithm, found.network
    assert (settings.batch_windows, settings.context_length) == (64, 64)
    assert found.encoder_settings.window == 65
    assert (found.training.warmup_steps, settings.learn_after) == (0, 10_000)
    assert settings.lr_policy == settings.lr_critic == settings.lr_alpha == 3e-4
    assert (settings.gamma, settings.tau, settings.alpha_loss) == (0.99, 0.005, "exp")
    embeddings = (sizes.observation_embedding, sizes.action_embedding, sizes.reward_embedding)
    token = {"sac-transformer": (48, 16, 16, 48), "gpide-ess": (32, 16, 16, 64)}[method]
    assert (*embeddings, sizes.difference_embedding) == token and sum(token) == sizes.width == 128
    assert (sizes.policy_shortcut, sizes.critic_shortcut, sizes.head_widths) == (8, 64, [256, 256])
    assert sizes.encoder_per_critic and settings.lr_context_encoder is None
    learner = get_method(method).learner(found, Dimensions(9, 3, False), torch.device("cpu"))
    rnn: Any = learner.networks["policy"].trunk.context_encoder.rnn  # type: ignore[union-attr]
    if method == "sac-transformer":
        assert isinstance(rnn.inward, torch.nn.Identity) and len(rnn.blocks) == 4
        assert rnn.blocks[0].up.weight.shape == (512, 128)
    else:
        assert rnn.maps.weight.shape == (192, 128) and rnn.out.weight.shape == (128, 192)


@every_one
@pytest.mark.parametrize("task", ["", *(spec.id for spec in all_tasks() if spec.family == "small")])
def test_small_presets_are_small(method: str, task: str) -> None:
    config = configure(task, method=method, preset="small")
    assert config.algorithm.batch_windows == 8 and config.algorithm.learn_after == 1000
    assert (config.algorithm.context_length, config.encoder_settings.window) == (64, 65)
    assert config.network.width == 32 and config.network.head_width == 64


@every_one
def test_windows_that_the_encoder_cannot_read_are_refused(method: str) -> None:
    with pytest.raises(ConfigError, match=r"context_length=65: .* reads 65 .* raise window to 66"):
        Agent("Pendulum-V-v0", method, context_length=65)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"encoder": "transformer", "longest_episode": 100},
            r"environment \(resel/Pendulum-V-v0\): .* raise longest_episode to 200, or",
        ),
        (
            {"encoder": "transformer", "longest_episode": 100, "env_workers": True},
            r"environment \(resel/Pendulum-V-v0\): .* raise longest_episode to 200, or",
        ),
        ({"encoder": "transformer", "window": 65}, "raise window to 201, learn from windows"),
        ({"encoder": "smoothing", "window": 65}, "raise window to 201, learn from windows"),
        ({"encoder": "transformer", "width": 60}, "n_heads=8 does not divide width=60"),
        ({"encoder": "smoothing", "released_details": True}, "a random memory, .* smoothing"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_runs(
    settings: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        Agent("Pendulum-V-v0", **settings)


def test_episodes_that_end_in_time_are_not_refused() -> None:
    tiny: dict[str, Any] = {"encoder": "transformer", "size": "tiny"}
    for agent in (
        Agent("TMaze-v0", window=65, **tiny),  # ends itself, and its horizon is known
        Agent("Pendulum-V-v0", longest_episode=50, max_episode_steps=50, **tiny),
        Agent("Pendulum-V-v0", window=65, context_length=64, **tiny),
    ):
        agent.close()
    endless = gymnasium.make("Pendulum-v1").unwrapped
    with pytest.raises(ConfigError, match=r"no declared end, .* reads 1,000 .*max_episode_steps"):
        Agent(endless, encoder="transformer", size="tiny", preset="small")
    agent = Agent("Pendulum-V-v0", longest_episode=50, max_episode_steps=50, **tiny)
    said = r"The evaluation environment \(resel/Pendulum-V-v0\): episodes can have 200 steps"
    with pytest.raises(ConfigError, match=said):
        agent.learn(1, eval_env=lambda: make_env("Pendulum-V-v0"))
    agent.close()


def test_the_end_of_the_cache_is_told() -> None:
    agent = Agent(
        "Pendulum-V-v0", encoder="transformer", size="tiny", longest_episode=3, max_episode_steps=3
    )
    state = None
    for _ in range(4):
        _, state = agent.predict([0.0], state)
    with pytest.raises(ConfigError, match=r"has 5 observations or more, .* reads 4: train with a"):
        agent.predict([0.0], state)
    agent.close()
