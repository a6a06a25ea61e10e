"""Small policies, steps for them, and their headers of C beside what the library does."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from resel.choices import CWeights
from resel.config import Config
from resel.deploy import (
    Answers,
    Limits,
    PolicyStep,
    Steps,
    acted_alone,
    c_policy,
    comparable,
    compiled,
)
from resel.envs import ActionSpec
from resel.methods import Learner, build_learner
from resel.networks import Dimensions

OBSERVATIONS = 3
SPACES = {
    "Box": spaces.Box(np.array([-2, 0], np.float32), np.array([2, 30], np.float32)),
    "Discrete": spaces.Discrete(4, start=2),
}
STRICT = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic")
_FAR = np.full(OBSERVATIONS, 50, np.float32)
LIMITS = Limits(-_FAR, _FAR, 500.0)


def compiler(name: str) -> str:
    """Where a compiler is; a test is skipped where it is not."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} on this machine")
    return found


def small_learner(space: str, size: int = 8, **settings: Any) -> Learner:
    """A learner of the default method, unless another is named, with weights that do something."""
    names = {key: settings.pop(key) for key in ("method", "encoder") if key in settings}
    config = Config.build("", names)
    sizes = {**dict.fromkeys(config.sized("tiny"), size), "device": "cpu", "seed": 1, **settings}
    return warmed(build_learner(config.replace(**sizes), dims_of(space), torch.device("cpu")))


def dims_of(space: str) -> Dimensions:
    """What networks are built for."""
    action = ActionSpec.of(SPACES[space])
    return Dimensions(OBSERVATIONS, action.size, action.discrete)


def warmed(learner: Learner) -> Learner:
    """The same, with biases and norms that are not as they begin, and scales that were learned."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for network in learner.networks.values():
            for parameter in network.parameters():
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    seen = np.random.default_rng(6).normal(1.0, 2.0, (50, OBSERVATIONS))
    learner.normalizer.update(seen.astype(np.float32))
    return learner


def some_steps(count: int, seed: int = 0) -> Steps:
    """Made-up steps with episodes that end at any moment."""
    rng = np.random.default_rng(seed)
    start = rng.random(count) < 0.02
    start[0] = True
    observation = rng.normal(0.0, 3.0, (count, OBSERVATIONS)).astype(np.float32)
    return Steps(start, observation, rng.normal(size=count).astype(np.float32))


def header_of(learner: Learner, space: str, weights: CWeights = "float32") -> str:
    """The policy as C."""
    return c_policy(learner, ActionSpec.of(SPACES[space]), LIMITS, some_steps(40, 1), weights)


def difference(learner: Learner, space: str, steps: Steps, answers: Answers) -> float:
    """The largest between C and the library: of Box actions in [-1, 1], or of logits."""
    wanted = acted_alone(learner, PolicyStep(learner, ActionSpec.of(SPACES[space])), steps)
    logits, actions = wanted.get("logits"), wanted["actions"]
    kept = comparable(steps, logits)
    assert not answers.codes.any()
    assert kept.mean() > 0.9
    if logits is not None:
        assert answers.logits is not None
        same: NDArray[np.bool_] = answers.actions[kept] == actions[kept]
        assert same.mean() > 0.99  # of two that are tied, either
        return float(np.abs(answers.logits - logits)[kept].max())
    box = SPACES[space]
    assert isinstance(box, spaces.Box)
    return float((np.abs(answers.actions - actions) / ((box.high - box.low) / 2)).max())


def run_header(header: str, steps: Steps, name: str = "gcc") -> Answers:
    """What a header does in these steps; its own test is passed too."""
    with compiled(header, compiler(name), STRICT) as program:
        assert program.self_test() == 0
        return program.run(steps)
