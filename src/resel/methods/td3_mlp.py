"""TD3-MLP: TD3 on the observation alone, as Ni et al. run it beside their recurrent agents.

Ni, Eysenbach and Salakhutdinov 2022, Recurrent Model-Free RL Can Be a Strong Baseline for Many
POMDPs. Unlike `td3`, the policy learns at every update and climbs the smaller of the two critics.
There 10,000 updates follow the 10,000 random steps at once; here learning begins with one a step.
"""

from __future__ import annotations

from dataclasses import dataclass

from resel.config import Count
from resel.methods._off_policy import BaselineNetwork, presets
from resel.methods.registry import Method
from resel.methods.td3 import SMALL, PolicyLoss, TD3Learner, TD3Settings


@dataclass(frozen=True)
class TD3MLPSettings(TD3Settings):
    """The hyperparameters of Ni et al."""

    policy_delay: Count = 1
    """Critic updates per update of the policy and of both targets."""
    policy_loss: PolicyLoss = "min"
    """What the policy climbs: the first critic, or the smaller of both."""
    batch_transitions: Count = 64
    """Single steps in a batch, drawn uniformly."""


METHOD = Method(
    name="td3-mlp",
    title="TD3-MLP",
    summary="TD3 on the observation alone, as a baseline of memory",
    source="Ni et al. 2022, Recurrent Model-Free RL Can Be a Strong Baseline for Many POMDPs "
    "(twni2016/pomdp-baselines)",
    learner=TD3Learner,
    settings=TD3MLPSettings,
    network=BaselineNetwork,
    encoder=None,
    preset=presets({"warmup_steps": 10_000}, {**SMALL, "batch_transitions": 64}),
    spaces=("Box",),
    figures=("table-pomdp", "fig-pomdp"),
)
