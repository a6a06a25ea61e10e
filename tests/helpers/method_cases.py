"""Every method of the registry on every space it declares, with networks of eight units."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor

from resel.config import Config
from resel.data import Batch, ReplayBuffer, Trajectory, constant_columns, pack
from resel.envs import EnvFactory
from resel.errors import ConfigError
from resel.methods import Learner, Method, build_learner, methods
from resel.networks import Dimensions, encoder_spec

DIMENSIONS = {
    "Box": Dimensions(3, 2, discrete=False),
    "Discrete": Dimensions(3, 4, discrete=True),
}
LENGTHS = (6, 1, 9, 4)
_FLOATS = ("observation", "action", "reward", "terminated")

_METHODS = methods()[0]
every_method = pytest.mark.parametrize("method", _METHODS, ids=[m.name for m in _METHODS])
_CASES = [(method, space) for method in _METHODS for space in method.spaces]
every_case = pytest.mark.parametrize(
    ("method", "space"), _CASES, ids=[f"{method.name}-{space}" for method, space in _CASES]
)


def small_config(method: Method, size: int = 8, **settings: Any) -> Config:
    """The method's defaults with all its scaled sizes the same, and small batches."""
    config = Config.build("", {"method": method.name})
    sizes = dict.fromkeys(config.sized("tiny"), size)
    counts = [name for name in vars(config.algorithm) if name.startswith(("batch_", "phase_"))]
    batches = dict.fromkeys(counts, 32)
    rows = {"num_envs": 4} if method.learner.on_policy else {}
    phases = {name: 0 for name in vars(config.algorithm) if name == "relation_after"}
    small = {**sizes, **batches, **rows, **phases, **_window(config), "device": "cpu", "seed": 1}
    return config.replace(**{**small, **settings})


def _window(config: Config) -> dict[str, int]:
    """As long as what is learned from, where there is one to be set."""
    steps = getattr(config.algorithm, "context_length", None)
    return {"window": steps + 1} if steps and "window" in config.flat() else {}


class TellTasks(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Tells a task at every reset, always the same, and nothing else that is hidden."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed)
        return observation, {**info, "task": 0, "hidden": 0.5}


def told_env(method: Method, env: str | EnvFactory) -> str | EnvFactory:
    """An environment that tells what the method learns from, if it is told anything.

    One that adapts also asks for tasks, so there is but one.
    """
    if not method.learner.learns_from:
        return env
    tells = {} if "adaptation" in vars(method.learner) else {"tells": True}
    make = (lambda: gymnasium.make(env, **tells)) if isinstance(env, str) else env
    return make if tells else lambda: TellTasks(make())


def turned(config: Config) -> Config:
    """The same with every switch of the method turned, where they can be turned together."""
    switches = {k: not v for k, v in vars(config.algorithm).items() if isinstance(v, bool)}
    try:
        return config.replace(**switches)
    except ConfigError:
        return config


def has_memory(config: Config) -> bool:
    """Whether its policy can know what was seen some steps ago."""
    return config.encoder is not None and encoder_spec(config.encoder).memory


def recalls(config: Config) -> bool:
    """The same where nothing but what is to be done depends on it.

    One whose memory learns to foretell observations keeps what these depend on.
    """
    return has_memory(config) and "lr_transition" not in config.flat()


def small_learner(config: Config, space: str, dtype: torch.dtype = torch.float32) -> Learner:
    """A learner that has seen some observations."""
    dims = DIMENSIONS[space]
    learner = build_learner(config, dims, torch.device("cpu"), dtype)
    seen = np.random.default_rng(0).normal(size=(20, dims.observation))
    learner.normalizer.update(seen.astype(np.float32))
    return learner


def told(number: int, length: int, otherwise: Collection[str] = ()) -> dict[str, Any]:
    """The columns of an episode of that task; of those named another task is told."""
    numbers = {name: number ^ (name in otherwise) for name in ("task", "hidden")}
    task, hidden = np.float32([numbers["task"]]), np.float32([numbers["hidden"] / 4])
    return constant_columns({"task": task, "hidden": hidden}, length)


def noise_episodes(
    dims: Dimensions,
    lengths: Sequence[int],
    rng: np.random.Generator,
    otherwise: Collection[str] = (),
) -> ReplayBuffer:
    """Episodes of noise, every second one terminated, each a task of its own."""
    width = 1 if dims.discrete else dims.action
    buffer = ReplayBuffer(200, dims.observation, width, {"task": 1, "hidden": 1})
    for number, length in enumerate(lengths):
        action = (
            rng.integers(dims.action, size=(length, 1))
            if dims.discrete
            else rng.uniform(-1, 1, (length, dims.action))
        )
        buffer.add(
            Trajectory(
                rng.normal(size=(length + 1, dims.observation)).astype(np.float32),
                action.astype(np.float32),
                rng.normal(size=length).astype(np.float32),
                terminated=number % 2 == 0,
                extras=told(number, length, otherwise),
            )
        )
    return buffer


def noise_buffer(
    space: str,
    lengths: Sequence[int] = LENGTHS,
    seed: int = 0,
    otherwise: Collection[str] = (),
) -> ReplayBuffer:
    """The same for one of the spaces."""
    return noise_episodes(DIMENSIONS[space], lengths, np.random.default_rng(seed), otherwise)


def of_dtype(batch: Batch, dtype: torch.dtype) -> Batch:
    """A batch whose numbers have that type."""
    columns = {name: getattr(batch, name).to(dtype) for name in _FLOATS}
    return dataclasses.replace(batch, **columns)


def noise_batch(
    space: str, rows: int = 1, dtype: torch.dtype = torch.float32, seed: int = 0
) -> Batch:
    """All of these episodes on so many rows."""
    buffer = noise_buffer(space, seed=seed)
    return of_dtype(pack(buffer, list(buffer), rows), dtype)


def sampled(learner: Learner, space: str, seed: int = 0, otherwise: Collection[str] = ()) -> Batch:
    """A batch as the method itself draws it."""
    rng, buffer = np.random.default_rng(seed), noise_buffer(space, otherwise=otherwise)
    return learner.sampler.draw(buffer, rng, learner.policy.suitable_rows)


def tensors_of(learner: Learner) -> dict[str, Tensor]:
    """Copies of all tensors that the next update depends on."""
    found = learner.weights() | {f"state/{k}": v for k, v in learner.state()[0].items()}
    return {name: tensor.detach().clone() for name, tensor in found.items()}


def saved(learner: Learner) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]]:
    """Weights, state and document, as they would come back from a disk."""
    tensors, document = learner.state()
    return (
        copy.deepcopy({k: v.detach() for k, v in learner.weights().items()}),
        copy.deepcopy(tensors),
        json.loads(json.dumps(document)),
    )


def same_bits(one: dict[str, Tensor], other: dict[str, Tensor], names: Iterable[str] = ()) -> None:
    """Refuse tensors that differ, NaN equal to NaN; all of them if none is named."""
    assert one.keys() == other.keys()
    for name in names or one:
        torch.testing.assert_close(
            one[name],
            other[name],
            rtol=0,
            atol=0,
            equal_nan=True,
            msg=lambda m, n=name: f"{n}: {m}",
        )
