"""SAC-MLP: SAC on the observation alone, as Ni et al. run it beside their recurrent agents.

Ni, Eysenbach and Salakhutdinov 2022, Recurrent Model-Free RL Can Be a Strong Baseline for Many
POMDPs. It differs from `sac` in the batch, the first weights, the warm-up and the loss of the
temperature, which goes through exp. There 10,000 updates follow the 10,000 random steps at once;
here learning begins with one a step. On gravity tasks it takes the sizes and rates of ESCP (Luo et
al. 2022), whose tasks these are; RESeL's paper does not say what it ran there.
"""

from __future__ import annotations

from dataclasses import dataclass

from resel.config import Count
from resel.methods._off_policy import ESCP, AlphaLoss, BaselineNetwork, presets
from resel.methods.registry import Method
from resel.methods.sac import SMALL, SACLearner, SACSettings


@dataclass(frozen=True)
class SACMLPSettings(SACSettings):
    """The hyperparameters of Ni et al."""

    alpha_loss: AlphaLoss = "exp"
    """What the temperature descends on: log alpha, or alpha itself (through exp), times how far the
    entropy is above its target."""
    batch_transitions: Count = 64
    """Single steps in a batch, drawn uniformly."""


METHOD = Method(
    name="sac-mlp",
    title="SAC-MLP",
    summary="SAC on the observation alone, as a baseline of memory",
    source="Ni et al. 2022, Recurrent Model-Free RL Can Be a Strong Baseline for Many POMDPs "
    "(twni2016/pomdp-baselines); on gravity tasks Luo et al. 2022, Adapt to Environment Sudden "
    "Changes by Learning a Context Sensitive Policy (FanmingL/ESCP)",
    learner=SACLearner,
    settings=SACMLPSettings,
    network=BaselineNetwork,
    encoder=None,
    preset=presets(
        {"warmup_steps": 10_000},
        {**SMALL, "batch_transitions": 64},
        families={"gravity": {**ESCP, "initialisation": "torch", "batch_transitions": 256}},
    ),
    figures=("table-pomdp", "table-gravity", "fig-pomdp", "fig-gravity"),
)
