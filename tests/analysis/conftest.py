"""Small real runs that nobody may change."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch

from resel.config import Config
from resel.runs import Run


@pytest.fixture(scope="session")
def make_run(
    tiny: dict[str, Any], toy: Any, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """A finished run in longer toy worlds; the same settings give the same directory.

    `certainty` pushes the policy towards one action from the start; `until` stops the run there.
    """
    made: dict[str, Path] = {}
    for name, discrete in (("toy/LongBox-v0", False), ("toy/LongDiscrete-v0", True)):
        if name not in gymnasium.registry:
            kwargs = {"length": 25, "spread": 10, "discrete": discrete}
            gymnasium.register(name, toy, max_episode_steps=100, kwargs=kwargs)

    def make(
        task: str = "toy/LongBox-v0",
        certainty: float = 0.0,
        until: float = math.inf,
        **settings: Any,
    ) -> Path:
        key = repr((task, certainty, until, sorted(settings.items())))
        if key not in made:
            path = tmp_path_factory.mktemp("diagnosed") / "run"
            run = Run(Config.build(task, tiny, {"steps": 150}, settings), path)
            policy = run.trainer.learner.policy
            with torch.no_grad():  # one logit, or the means, which are the second half
                bias = policy.head[-1].bias
                bias[-1 if policy.discrete else -(len(bias) // 2) :] += certainty
            try:
                run.train([lambda progress: progress.step < until])
            finally:
                run.close()
            made[key] = path
        return made[key]

    return make
