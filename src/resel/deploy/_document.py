"""policy.json: all that somebody must know who runs an exported policy."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from resel.deploy._step import StatePart, StepLayout
from resel.envs import AnyEnv
from resel.methods import Learner
from resel.networks import encoder_spec
from resel.tasks import short_name

Batch = int | Literal["dynamic"]
_Pair = tuple[NDArray[np.float32], NDArray[np.float32]]

FORMAT, VERSION = "resel-export", 1
"""As in the loader, which imports nothing of ours."""
_FAR = 10.0
_FAR_REWARD = 1000.0
_UNBOUNDED = 1e30
_MANY = 1000
"""Entries of an observation, an image then, that are not told one by one."""
_PACKAGES = ("resel", "torch", "onnx", "onnxscript", "onnxruntime")


class Limits(NamedTuple):
    """Beyond these, what a policy reads is far from all that it was trained on."""

    low: NDArray[np.float32]
    high: NDArray[np.float32]
    reward: float
    """The largest magnitude of a last reward."""


@dataclass(frozen=True)
class Origin:
    """Where a policy comes from."""

    learner: Learner
    env: AnyEnv
    step: int | None
    """What it had learned from, where that is known."""


def describe_policy(
    origin: Origin, layout: StepLayout, batch: Batch, limits: Limits
) -> dict[str, Any]:
    """The document, without the hashes of files; `limits` are those of `trained_range`."""
    learner, observation, action = origin.learner, origin.env.observation, origin.env.action
    config, rows = learner.config, "batch" if batch == "dynamic" else batch
    declared = observation.bounds()
    noise = "gumbel" if layout.discrete else "standard_normal"
    return {
        "format": FORMAT,
        "version": VERSION,
        "versions": {package: _version(package) for package in _PACKAGES},
        "task": short_name(config.task) or None,
        "env_kwargs": config.training.env_kwargs,
        "method": config.method,
        "encoder": config.encoder,
        "step": origin.step,
        "batch": batch,
        "observation": {
            "size": layout.observation,
            "space": observation.to_json(),
            "names": _few_names(entry_names(observation.space, "observation")),
            "low": _finite(declared and declared[0], layout.observation),
            "high": _finite(declared and declared[1], layout.observation),
            "trained_low": _finite(limits.low, layout.observation),
            "trained_high": _finite(limits.high, layout.observation),
        },
        "action": {
            "size": layout.action,
            "space": {**action.to_json(), "dtype": str(np.dtype(action.space.dtype))}
            | ({"shape": list(action.space.shape or ())}),
            "names": entry_names(action.space, "action"),
        },
        "inputs": {name: _named(shape, rows) for name, shape in layout.inputs(-1).items()},
        "outputs": layout.outputs,
        "noise": noise if layout.stochastic else None,
        "reward_limit": limits.reward if layout.reward else None,
        "state": {
            "h_size": layout.h_size,
            "c_size": layout.c_size,
            "h": _offsets(layout.h),
            "c": _offsets(layout.c),
        },
        "longest_episode": longest_episode(learner),
    }


def _version(package: str) -> str | None:
    """By the module itself: what it comes from may have another name, such as onnxruntime-gpu."""
    version = getattr(importlib.import_module(package), "__version__", None)
    return None if version is None else str(version)


def trained_range(
    learner: Learner, env: AnyEnv, seen: NDArray[np.float32], rewards: NDArray[np.float32]
) -> Limits:
    """The limits of a policy, which saw this while it played.

    With a normaliser that is where it cuts, or the bounds of the space if they are wider: a value
    that is rare, or new, may be as good as any other within them. Else a tenth beyond the bounds;
    where there are none, ten times what was seen. All of that is within.

    Rare rewards can be far larger than those of a good policy: their limit, a thousand times what
    was seen, keeps out broken numbers alone.
    """
    low, high = _limits(learner, env.observation.bounds(), _FAR * np.abs(seen).max(0))
    return Limits(
        np.minimum(low, seen.min(0)),
        np.maximum(high, seen.max(0)),
        _FAR_REWARD * max(1.0, float(np.abs(rewards).max(initial=0.0))),
    )


def _limits(learner: Learner, declared: _Pair | None, most: NDArray[np.float32]) -> _Pair:
    normalizer, most = learner.normalizer, np.maximum(most, _FAR)
    cuts = normalizer.limits() if normalizer.enabled and float(normalizer.count) > 0 else None
    if declared is None:
        return cuts or (-most, most)
    low, high = (bound.astype(np.float64) for bound in declared)
    # What is declared for the sake of form, such as the largest float, bounds nothing.
    below, above = low > -_UNBOUNDED, high < _UNBOUNDED
    if cuts is not None:
        wider = np.where(below, low, np.inf), np.where(above, high, -np.inf)
        low, high = np.minimum(cuts[0], wider[0]), np.maximum(cuts[1], wider[1])
        return low.astype(np.float32), high.astype(np.float32)
    with np.errstate(invalid="ignore"):  # of infinite bounds
        margin = np.where(below & above, high - low, most) / _FAR
    low, high = np.where(below, low - margin, -most), np.where(above, high + margin, most)
    return low.astype(np.float32), high.astype(np.float32)


def entry_names(space: spaces.Space[Any], name: str) -> list[str]:
    """A name for each number of an encoded observation, or of an action."""
    match space:
        case spaces.Dict():
            parts = [(f"{name}.{key}", part) for key, part in space.spaces.items()]
            return [entry for where, part in parts for entry in entry_names(part, where)]
        case spaces.Tuple():
            parts = [(f"{name}[{i}]", part) for i, part in enumerate(space.spaces)]
            return [entry for where, part in parts for entry in entry_names(part, where)]
        case spaces.Discrete():
            return [f"{name}=={space.start + i}" for i in range(int(space.n))]
        case spaces.MultiDiscrete():
            counts = np.asarray(space.nvec).reshape(-1).tolist()
            starts = np.asarray(space.start).reshape(-1).tolist()
            pairs = enumerate(zip(counts, starts, strict=True))
            return [f"{name}[{i}]=={s + k}" for i, (n, s) in pairs for k in range(n)]
        case _:
            shape = tuple(space.shape or ())
            places = np.ndindex(*shape)
            return [f"{name}[{','.join(map(str, place))}]" if place else name for place in places]


def longest_episode(learner: Learner) -> int | None:
    """Steps of an episode after which the policy's memory is full; None for any number."""
    config = learner.config
    if config.encoder is None:
        return None
    longest = encoder_spec(config.encoder).longest(config.encoder_settings)
    return None if longest is None or longest.slides else longest.observations


def _offsets(parts: Sequence[StatePart]) -> list[dict[str, Any]]:
    found, at = [], 0
    for part in parts:
        found.append(
            {"name": part.name, "offset": at, "size": part.size, "shape": list(part.shape)}
        )
        at += part.size
    return found


def _named(shape: Sequence[int], rows: int | str) -> list[int | str]:
    """A shape whose number of rows, -1, is given its name."""
    return [rows if size == -1 else size for size in shape]


def _finite(values: NDArray[np.float32] | None, size: int) -> list[float | None]:
    """JSON has no infinity: None where there is no bound. One stands for many that are the same."""
    found = [None] * size if values is None else values.tolist()
    found = [x if x is not None and math.isfinite(x) else None for x in found]
    return found[:1] if size > _MANY and len(set(found)) == 1 else found


def _few_names(names: list[str]) -> list[str] | None:
    return names if len(names) <= _MANY else None
