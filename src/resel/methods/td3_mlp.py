"""TD3-MLP: TD3 on the observation alone, as Ni et al. run it beside their recurrent agents.

Ni, Eysenbach and Salakhutdinov 2022, Recurrent Model-Free RL Can Be a Strong Baseline for Many
POMDPs. Unlike `td3`, the policy learns at every update and climbs the smaller of the two critics.
"""

from __future__ import annotations

from typing import Any

from resel.methods._off_policy import presets
from resel.methods.registry import Method
from resel.methods.td3 import SMALL, TD3Learner, TD3Settings
from resel.networks import PlainNetwork

_OWN: dict[str, Any] = {
    "initialisation": "fan_out",
    "policy_delay": 1,
    "policy_loss": "min",
    "batch_transitions": 64,
}

METHOD = Method(
    name="td3-mlp",
    title="TD3-MLP",
    summary="TD3 on the observation alone, as a baseline of memory",
    source="Ni et al. 2022, Recurrent Model-Free RL Can Be a Strong Baseline for Many POMDPs "
    "(twni2016/pomdp-baselines)",
    learner=TD3Learner,
    settings=TD3Settings,
    network=PlainNetwork,
    encoder=None,
    preset=presets({**_OWN, "warmup_steps": 10_000}, {**SMALL, **_OWN}),
    spaces=("Box",),
    figures=("table-pomdp", "fig-pomdp"),
)
