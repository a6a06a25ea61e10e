"""What acting costs is measured for every kind of method."""

from __future__ import annotations

import pytest
import torch

from resel.benchmarks import PlayCost
from resel.config import Config
from resel.methods import build_learner
from resel.networks import Dimensions


@pytest.mark.parametrize("method", ["promp", "transformer", "a2c-gru"])
def test_what_playing_costs_is_measured(method: str) -> None:
    """With phases before evaluations, a cache that ends with the episode, many environments."""
    names = {"encoder": method} if method == "transformer" else {"method": method}
    own = {"num_envs": 8} if method != "transformer" else {"longest_episode": 5, "n_heads": 2}
    config = Config.build("", names, {**own, "device": "cpu"})
    config = config.replace(**dict.fromkeys(config.sized("tiny"), 8))
    learner = build_learner(config, Dimensions(3, 2, discrete=False), torch.device("cpu"))
    cost = PlayCost.measured(learner, 5)
    assert 0 < cost.judging < 0.1
    assert cost.acting < cost.judging or method == "transformer"  # shared by all environments
    assert len(cost.adapting) == (method == "promp")
