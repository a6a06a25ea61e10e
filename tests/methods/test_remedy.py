"""The rate that is blamed for a divergence."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from resel.agent import configure
from resel.methods import build_learner, remedy
from resel.networks import Dimensions

SMALL: dict[str, Any] = {"head_width": 8}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"lr_critic": 0.5}, "lr_critic=0.5 is 167 times the highest of the method's presets"),
        ({"lr_policy": 0.1}, "lr_policy=0.1 is"),
        ({"lr_alpha": 1.0, "lr_critic": 0.01}, "lr_alpha=1 is"),
        ({"lr_context_encoder": 0.1, "lr_critic": 0.1}, "lr_context_encoder=0.1 is"),
        ({}, "A smaller lr_context_encoder than 0.0003 is the first thing to try."),
        ({"lr_context_encoder": None}, "The memory learns at the rate of the other layers"),
        ({"lr_context_encoder": "auto"}, "A smaller lr_critic than 0.003"),
        ({"encoder": "mlp"}, "A smaller lr_critic than 0.003"),
        ({"method": "td3"}, "A smaller lr_critic than"),
    ],
)
def test_the_rate_that_was_too_high_is_named(settings: dict[str, Any], told: str) -> None:
    config = configure("Pendulum-V-v0", **{**SMALL, **settings})
    learner = build_learner(config, Dimensions(1, 1, False), torch.device("cpu"))
    assert remedy(learner, "critic").startswith(told)
