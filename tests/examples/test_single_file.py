"""The example in one file is the library's algorithm, and stays short and free of the library."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import math
import sys
from collections import deque
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from resel.config import Config
from resel.data import Batch, ReplayBuffer, Trajectory, pack
from resel.methods import Learner, build_learner
from resel.networks import Dimensions

PATH = Path(__file__).parents[2] / "examples" / "resel_single_file.py"
OBSERVATION, ACTION = 3, 2

# ---- All that is taken from the library: its learner, its names, its batches ----


def library_learner(settings: dict[str, Any]) -> Learner:
    """The library's learner in float64; its settings have the example's names."""
    config = Config.build("", settings, {"normalize_observations": True})
    dims = Dimensions(OBSERVATION, ACTION, discrete=False)
    return build_learner(config, dims, torch.device("cpu"), torch.float64)


def library_sees(learner: Learner, observations: np.ndarray) -> tuple[Tensor, Tensor]:
    """Let it take in observations; mean and deviation that it scales them by from now on."""
    learner.normalizer.update(observations)
    return learner.normalizer.mean, learner.normalizer.deviation


def library_noise(learner: Learner, generator: torch.Generator) -> None:
    """Draw everything from one stream: heads, then the target's actions, then the policy's."""
    learner.generators |= {"subset": generator, "noise": generator}


def library_weights(learner: Learner) -> dict[str, Tensor]:
    """Policy, critic, target critic and log_alpha, by the example's names and in its shapes."""
    renamed = {
        "trunk.context_encoder.before.0.linear.": "context_encoder.0.",
        "trunk.context_encoder.rnn.layers.": "context_encoder.1.gru.",
        "trunk.context_encoder.rnn.norms.0.": "context_encoder.1.norm.",
        "trunk.context_encoder.rnn.mixers.0.conv_bias": "context_encoder.1.conv1d.bias",
        "trunk.context_encoder.rnn.mixers.0.conv_weight": "context_encoder.1.conv1d.weight",
        "trunk.context_encoder.rnn.mixers.0.": "context_encoder.1.",
        "trunk.context_encoder.rnn.last.norm.": "context_encoder.1.post_norm.",
        "trunk.context_encoder.rnn.last.": "context_encoder.1.",
        "trunk.context_encoder.after.": "context_encoder.2.",
        "trunk.observation.": "pre_encoders.0.",
        "trunk.last_observation.": "pre_encoders.1.",
        "trunk.last_action.": "pre_encoders.2.",
        "trunk.last_reward.": "pre_encoders.3.",
        "policy.head.0.0.linear.weight": "policy.head.weights.0",
        "policy.head.0.1.linear.weight": "policy.head.weights.1",
        "policy.head.1.weight": "policy.head.weights.2",
        "policy.head.0.0.linear.bias": "policy.head.biases.0",
        "policy.head.0.1.linear.bias": "policy.head.biases.1",
        "policy.head.1.bias": "policy.head.biases.2",
    }
    found = {}
    for name, tensor in learner.weights().items():
        if name.startswith("normalizer."):
            continue
        for old, new in renamed.items():
            name = name.replace(old, new)
        if ".weights." in name:  # (heads, outputs, inputs), the policy's without the first
            tensor = tensor.reshape(-1, *tensor.shape[-2:]).transpose(1, 2)
        if ".biases." in name:
            tensor = tensor.reshape(-1, 1, tensor.shape[-1])
        if name.endswith("conv1d.weight"):
            tensor = tensor.flip(1)  # the library has the newest tap first
        found[name] = tensor.clone()
    return found


def library_batch(episodes: list[Any]) -> Batch:
    """Finished episodes of the example packed by the library, in float64."""
    buffer = ReplayBuffer(1000, OBSERVATION, ACTION)
    for episode in episodes:
        buffer.add(
            Trajectory(
                np.array(episode.observations, np.float32),
                np.array(episode.actions[:-1], np.float32),
                np.array(episode.rewards[:-1], np.float32),
                episode.terminated,
            )
        )
    batch = pack(buffer, list(buffer))
    floats = ("observation", "action", "reward", "terminated")
    return dataclasses.replace(batch, **{name: getattr(batch, name).double() for name in floats})


def library_row(batch: Batch) -> dict[str, Tensor]:
    """What the example calls by these names."""
    return {
        "observation": batch.observation[0],
        "action": batch.action[0],
        "reward": batch.reward[0],
        "terminated": batch.terminated[0],
        "is_first": batch.is_first[0],
        "mask": batch.mask[0],
    }


# ---- The example ----


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("resel_single_file", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


SETTINGS: dict[str, Any] = {
    "width": 18,  # so that the step sizes of Mamba have rank 2
    "embedding": 5,
    "head_width": 6,
    "state_size": 3,
    "conv_kernel": 4,
    "n_critics": 8,
    "subset_size": 2,
    "lr_context_encoder": 1e-3,
    "lr_policy": 3e-3,
    "lr_critic": 1e-2,
    "lr_alpha": 5e-3,
    "tau": 0.05,
    "gamma": 0.9,
    "reward_scale": 0.5,
    "target_entropy_scale": 0.8,
}
LENGTHS = [3, 1, 9, 6]
"""Steps of the episodes in a batch: shorter and longer than the convolution."""


class Noise(gymnasium.Env[Any, Any]):
    """Random observations and rewards; every second episode terminates, the others are cut."""

    observation_space = spaces.Box(-np.inf, np.inf, (OBSERVATION,), np.float32)
    action_space = spaces.Box(-1, 1, (ACTION,), np.float32)

    def __init__(self, lengths: list[int], seed: int) -> None:
        self.lengths, self.played, self.rng = lengths, -1, np.random.default_rng(seed)

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        self.played, self.time = self.played + 1, 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        ended = self.time == self.lengths[self.played]
        terminates = self.played % 2 == 0
        reward = float(self.rng.normal())
        return self._observation(), reward, ended and terminates, ended and not terminates, {}

    def _observation(self) -> Any:
        return self.rng.normal(2, 3, OBSERVATION).astype(np.float32)


def play(example: ModuleType, seed: int) -> list[Any]:
    """Episodes of random actions, in the order in which `row_of` lays them."""
    env, rng = Noise(LENGTHS, seed), np.random.default_rng(seed)
    episodes = []
    for _ in LENGTHS:
        episode = example.Episode(env)
        while not episode.done:
            episode.step(rng.uniform(-1, 1, ACTION).astype(np.float32))
        episodes.append(episode)
    return episodes


def row_of(example: ModuleType, episodes: list[Any], seed: int) -> tuple[Any, list[Any]]:
    """The episodes in one row in float64, and in the order in which they lie there."""
    buffer = deque(episode.row() for episode in episodes)
    row = example.sample_row(buffer, sum(LENGTHS), torch.Generator().manual_seed(seed))
    order = torch.randperm(len(buffer), generator=torch.Generator().manual_seed(seed)).tolist()
    doubled = [x.double() if x.is_floating_point() else x for x in row]
    return example.Row(*doubled), [episodes[index] for index in order]


def test_it_is_short_and_imports_nothing_of_the_library() -> None:
    text = PATH.read_text()
    assert len(text.splitlines()) <= 400
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(str(node.module))
    roots = {name.split(".")[0] for name in imported}
    assert roots - sys.stdlib_module_names == {"gymnasium", "numpy", "torch"}


def test_a_row_is_the_tape_of_the_library(example: ModuleType) -> None:
    row, episodes = row_of(example, play(example, seed=0), seed=5)
    assert {len(episode.rewards) - 1 for episode in episodes} == set(LENGTHS)
    assert {episode.terminated for episode in episodes} == {True, False}
    for name, expected in library_row(library_batch(episodes)).items():
        assert torch.equal(getattr(row, name), expected), name


def test_a_row_holds_as_many_steps_as_asked_for(example: ModuleType) -> None:
    buffer = deque(episode.row() for episode in play(example, seed=0))
    for seed in range(5):
        row = example.sample_row(buffer, 8, torch.Generator().manual_seed(seed))
        steps = row.mask.sum()
        last = (~row.is_first.flip(0)).int().cumprod(0).sum()  # the steps of the last episode
        assert steps - last < 8 <= steps


@pytest.mark.parametrize("reward_input", [False, True], ids=["", "reward-input"])
@pytest.mark.parametrize("encoder", ["gru", "mamba"])
def test_updates_equal_those_of_the_library(
    example: ModuleType, encoder: str, reward_input: bool
) -> None:
    settings = {**SETTINGS, "encoder": encoder, "reward_input": reward_input}
    learner = library_learner(settings)
    agent = example.Agent(OBSERVATION, ACTION, example.Settings(**settings)).double()
    seen = np.random.default_rng(0).normal(2, 3, (50, OBSERVATION)).astype(np.float32)
    agent.mean, agent.std = library_sees(learner, seen)
    agent.load_state_dict(library_weights(learner))
    library_noise(learner, torch.Generator().manual_seed(7))
    agent.rng = torch.Generator().manual_seed(7)
    for number in range(5):
        before = {name: tensor.clone() for name, tensor in agent.state_dict().items()}
        row, episodes = row_of(example, play(example, number), seed=number)
        learner.update(library_batch(episodes))
        agent.update(row)
        ours, theirs = agent.state_dict(), library_weights(learner)
        for name, tensor in ours.items():
            learns = number % 2 == 0 or "critic" in name
            assert torch.equal(tensor, before[name]) != learns, name
            torch.testing.assert_close(
                tensor,
                theirs[name],
                rtol=1e-9,
                atol=1e-11,
                msg=lambda text, where=name: f"{where}: {text}",
            )


@pytest.mark.parametrize("encoder", ["gru", "mamba"])
def test_acting_step_by_step_equals_a_whole_row(example: ModuleType, encoder: str) -> None:
    torch.manual_seed(0)
    agent = example.Agent(OBSERVATION, ACTION, example.Settings(**SETTINGS, encoder=encoder))
    env, rows = Noise([6, 11], seed=1), []
    for _ in range(2):
        episode = example.Episode(env)
        while not episode.done:
            episode.step(agent.act(episode, explore=False))
        rows.append(episode.row())
    row = example.Row(*(torch.cat(parts) for parts in zip(*rows, strict=True)))
    with torch.no_grad():
        mean, _, _ = agent.policy(agent.inputs(row), row.is_first)
    torch.testing.assert_close(torch.tanh(mean)[row.mask], row.action[row.mask])


@pytest.mark.parametrize("encoder", ["gru", "mamba"])
def test_a_short_run(example: ModuleType, encoder: str) -> None:
    settings = example.Settings(
        **(SETTINGS | {"encoder": encoder, "seed": 100, "batch_size": 200}),
        steps=240,
        warmup_steps=210,
        eval_every=120,
        eval_episodes=1,
    )
    evaluations = example.train(settings)
    assert len(evaluations) == 2
    assert all(math.isfinite(value) and -2000 < value < 0 for value in evaluations)
