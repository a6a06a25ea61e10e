"""SAC-GRU: SAC with recurrent networks, all of them learning at one rate.

On POMDP tasks it has the sizes of Ni et al. 2022 with the reward as an input and an encoder for
each critic, as Char and Schneider 2023 run it (IanChar/GPIDE, `pyb_rnn_sac`); what their code does
besides is left out: time-outs count as ends, targets begin with weights of their own, all losses
are formed before the first step, and the warm-up follows the untrained policy. On meta-RL tasks it
is Ni et al.'s `sac-gru-400-oar`, with one encoder for both critics.

On gravity tasks RESeL's paper says "standard SAC, GRU models" and no more; they are ESCP's (Luo et
al. 2022), so its sizes and rates are taken: [o_t, a_{t-1}] in a layer of 128, GRU of 64, 2 numbers
of context. There states come from a pass over the whole trajectory, which is cut into 16 slices of
16 steps; here 16 windows of 64 steps begin with none, and all of their steps count, four times as
many.
"""

from __future__ import annotations

from typing import Any

from resel.methods import _recurrent
from resel.methods._off_policy import ESCP, presets
from resel.methods.registry import Method
from resel.methods.sac import SACLearner
from resel.networks import SequenceNetwork

_GRAVITY: dict[str, Any] = {
    **ESCP,
    "observation_embedding": 64,
    "action_embedding": 64,
    "reward_embedding": 0,
    "joint_embedding": True,
    "width": 64,
    "context_size": 2,
    "policy_shortcut": 0,
    "critic_shortcut": 0,
    "head_initialisation": "torch",
    "initialisation": "torch",
    "batch_windows": 16,
}
METHOD = Method(
    name="sac-gru",
    title="SAC-GRU",
    summary="SAC with a GRU for the policy and others for the critics, at one learning rate",
    source="Ni et al. 2022, Recurrent Model-Free RL Can Be a Strong Baseline for Many POMDPs "
    "(twni2016/pomdp-baselines), as in Char and Schneider 2023, PID-Inspired Inductive Biases for "
    "Deep Reinforcement Learning (IanChar/GPIDE); on gravity tasks Luo et al. 2022, Adapt to "
    "Environment Sudden Changes by Learning a Context Sensitive Policy (FanmingL/ESCP)",
    learner=SACLearner,
    settings=_recurrent.SequenceSACSettings,
    network=SequenceNetwork,
    encoder="gru",
    preset=presets(
        _recurrent.PAPER,
        {**_recurrent.SMALL, **_recurrent.QUICK_SAC},
        families={
            "gravity": _GRAVITY,
            "meta-RL": {**_recurrent.TRIALS, "reward_embedding": 16, "encoder_per_critic": False},
        },
        tasks={
            "Wind-v0": {**_recurrent.WIND, "context_length": 75},
        },
    ),
    figures=("table-gravity", "fig-gravity", "fig-meta"),
)
