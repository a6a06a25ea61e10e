"""SAC-MLP: SAC on the observation alone, as Ni et al. run it beside their recurrent agents.

Ni, Eysenbach and Salakhutdinov 2022, Recurrent Model-Free RL Can Be a Strong Baseline for Many
POMDPs. It differs from `sac` in the batch, the first weights and the loss of the temperature, which
goes through exp. On gravity tasks it takes the sizes and rates of ESCP (Luo et al. 2022), whose
tasks these are; RESeL's paper does not say what it ran there.
"""

from __future__ import annotations

from typing import Any

from resel.methods._off_policy import presets
from resel.methods.registry import Method
from resel.methods.sac import SMALL, SACLearner, SACSettings
from resel.networks import PlainNetwork

_PAPER: dict[str, Any] = {
    "initialisation": "fan_out",
    "alpha_loss": "exp",
    "batch_transitions": 64,
    "warmup_steps": 10_000,
}
_GRAVITY: dict[str, Any] = {
    "head_width": 128,
    "last_width": 64,
    "activation": "leaky_relu",
    "initialisation": "torch",
    "log_std_min": -7.0,
    "lr_critic": 1e-3,
    "lr_alpha": 1e-2,
    "alpha_start": 0.2,
    "alpha_max": 1.0,
    "target_entropy_scale": 1.5,
    "batch_transitions": 256,
    "warmup_steps": 4000,
    "learn_after": 20_000,
}
_SMALL = {**SMALL, "initialisation": "fan_out", "alpha_loss": "exp", "batch_transitions": 64}

METHOD = Method(
    name="sac-mlp",
    title="SAC-MLP",
    summary="SAC on the observation alone, as a baseline of memory",
    source="Ni et al. 2022, Recurrent Model-Free RL Can Be a Strong Baseline for Many POMDPs "
    "(twni2016/pomdp-baselines)",
    learner=SACLearner,
    settings=SACSettings,
    network=PlainNetwork,
    encoder=None,
    preset=presets(_PAPER, _SMALL, families={"gravity": _GRAVITY}),
    figures=("table-pomdp", "table-gravity", "fig-pomdp", "fig-gravity"),
)
