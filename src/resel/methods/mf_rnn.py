"""MF-RNN: TD3 with recurrent networks, the "recurrent model-free" baseline.

Ni, Eysenbach and Salakhutdinov 2022, Recurrent Model-Free RL Can Be a Strong Baseline for Many
POMDPs. Of its many variants the one drawn for PyBullet tasks is taken, `td3-gru-64-oa-separate`:
the last reward is not read, one GRU serves both critics, the policy learns at every update and
climbs the smaller of the two critics, and both targets move at every update.

On meta-RL tasks it has the sizes, batches and rhythm that are drawn there: HalfCheetahVel and Wind
are TD3 with an LSTM in the source as well; AntDir and CheetahDir are SAC there (`sac-gru-400-oar`),
so the line MF-RNN of the figure is `sac-gru` on these two. Asked for by name, this method is TD3 on
them too, because a method has one rule. Updates come one by one
between the steps, in the source in bursts after whole episodes; those it makes for the random steps
of the warm-up, all at once, are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from resel.config import Count, scaled
from resel.methods import _recurrent
from resel.methods._critic_observations import CriticObservations
from resel.methods._off_policy import presets
from resel.methods.registry import Method
from resel.methods.td3 import DeterministicSettings, PolicyLoss, TD3Learner
from resel.networks import SequenceNetwork


@dataclass(frozen=True)
class MFRNNSettings(CriticObservations, _recurrent.RecurrentSettings, DeterministicSettings):
    """The hyperparameters of recurrent TD3."""

    policy_delay: Count = 1
    """Critic updates per update of the policy and of both targets."""
    policy_loss: PolicyLoss = "min"
    """What the policy climbs: the first critic, or the smaller of both."""

    def __post_init__(self) -> None:
        CriticObservations.__post_init__(self)
        DeterministicSettings.__post_init__(self)
        _recurrent.RecurrentSettings.__post_init__(self)


@dataclass(frozen=True)
class MFRNNNetwork(SequenceNetwork):
    """Sizes of policy and critic."""

    reward_embedding: Count = scaled(0)
    """Outputs of the layer that embeds the last reward; 0 leaves the reward out."""
    critic_shortcut: Count = scaled(48)
    """Outputs of the layer that embeds [o_t, a_t] for the critic's heads; 0 hands over both."""
    encoder_per_critic: bool = False
    """Give every critic head embeddings, a context encoder and a shortcut of its own."""


_SMALL: dict[str, Any] = {
    **_recurrent.SMALL,
    # Windows that begin without a memory in the middle of an episode, and a policy that is driven
    # to the bounds at once, kept it from learning: few whole episodes, and noise that gets away.
    "batch_windows": 4,
    "context_length": 200,
    "lr_critic": 1e-3,
    "tau": 0.01,
    "exploration_noise": 0.3,
}

METHOD = Method(
    name="mf-rnn",
    title="MF-RNN",
    summary="TD3 with a GRU for the policy and one for both critics, at one learning rate",
    source="Ni et al. 2022, Recurrent Model-Free RL Can Be a Strong Baseline for Many POMDPs "
    "(twni2016/pomdp-baselines)",
    learner=TD3Learner,
    settings=MFRNNSettings,
    network=MFRNNNetwork,
    encoder="gru",
    preset=presets(
        _recurrent.PAPER,
        _SMALL,
        families={"meta-RL": {**_recurrent.TRIALS, "reward_embedding": 16}},
        tasks={
            "TwoGoals-v0": {"reward_embedding": 16},
            "HalfCheetahVel-v0": {"encoder": "lstm", "context_length": 64},
            "Wind-v0": {**_recurrent.WIND, "encoder": "lstm", "context_length": 64},
        },
    ),
    spaces=("Box",),
    figures=("table-pomdp", "fig-pomdp", "fig-encoders", "fig-meta"),
)
