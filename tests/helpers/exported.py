"""Exported policies beside what the library does."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from method_cases import small_learner
from numpy.typing import NDArray

from resel.config import Config
from resel.deploy import Outcome, PolicyStep, Step, Vectors, compare, expected
from resel.envs import ActionSpec
from resel.methods import Learner, get_method

ACTIONS: dict[str, spaces.Space[Any]] = {
    "Box": spaces.Box(np.array([-2, 0], np.float32), np.array([2, 1], np.float32)),
    "Discrete": spaces.MultiDiscrete([2, 2], start=np.array([0, 5])),
}
"""As large as the dimensions of `method_cases`."""


def config_of(method: str, encoder: str | None = None, size: int = 8, **settings: Any) -> Config:
    """A method with an encoder, or its own, and all sizes the same."""
    base = Config.build("", {"method": method, **({"encoder": encoder} if encoder else {})})
    sizes = dict.fromkeys(base.sized("tiny"), size)
    rows = {"num_envs": 4} if get_method(method).learner.on_policy else {}
    return base.replace(**{**sizes, **rows, "device": "cpu", "seed": 1, **settings})


def case(
    config: Config, space: str, rows: int, *, stochastic: bool = False, steps: int = 60
) -> tuple[Learner, PolicyStep, Vectors]:
    """A learner, a step of its policy and what it does with noise, with episodes of 1 to 25."""
    learner = small_learner(config, space)
    step = PolicyStep(learner, ActionSpec.of(ACTIONS[space]), stochastic=stochastic)
    rng, episodes = np.random.default_rng(3), []
    for length in (25, 1, 14, steps - 40):
        seen = rng.normal(size=(length, learner.dims.observation)).astype(np.float32)
        episodes.append((seen, rng.normal(size=length).astype(np.float32)))
    return learner, step, expected(learner, step, episodes, rows)


def document_of(step: PolicyStep, space: str) -> dict[str, Any]:
    """As much of policy.json as `compare` reads."""
    spec = ActionSpec.of(ACTIONS[space])
    sizes = {"h_size": step.layout.h_size, "c_size": step.layout.c_size}
    return {"state": sizes, "action": {"space": spec.to_json()}}


def run_plainly(step: PolicyStep) -> Step:
    """The step as torch runs it, without a model of it."""

    def call(feed: Any) -> dict[str, NDArray[Any]]:
        given = [torch.from_numpy(feed[name]) for name in step.layout.inputs(1)]
        with torch.no_grad():
            found = step(*given)
        return {n: x.numpy() for n, x in zip(step.layout.outputs, found, strict=True)}

    return call


def outcome(run: Step, step: PolicyStep, vectors: Vectors, space: str) -> Outcome:
    """How far one is from what was expected."""
    return compare(run, vectors, document_of(step, space))
