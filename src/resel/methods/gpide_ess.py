"""GPIDE-ESS: SAC on windows of transitions, summed up as a PID controller would.

Char and Schneider 2023 (IanChar/GPIDE, `pyb_gpide_ess_sac`). Policy and both critics have an
encoder each, with five heads of exponential smoothing and one that sums; a token is (o_{t-1},
a_{t-1}, r_{t-1}, o_t - o_{t-1}), each kind batch-normalised. Acting sees the newest 65 steps.

What is not taken over from their code is told in `sac_transformer`.
"""

from __future__ import annotations

from dataclasses import dataclass

from resel.config import Count, scaled
from resel.methods import _recurrent
from resel.methods._off_policy import presets
from resel.methods.registry import Method
from resel.methods.sac import SACLearner
from resel.networks import Normalized, TokenNetwork


@dataclass(frozen=True)
class GPIDENetwork(TokenNetwork):
    """Sizes of policy and critic."""

    observation_embedding: Count = scaled(32)
    """Outputs of the layer that embeds o_{t-1} for the context encoder."""
    difference_embedding: Count = scaled(64)
    """Outputs of the layer that embeds o_t - o_{t-1}."""
    batch_norm: Normalized = "all"
    """Inputs of the context encoder that go through batch normalisation: none, the difference, or
    all."""


METHOD = Method(
    name="gpide-ess",
    title="GPIDE-ESS",
    summary="SAC with moving averages and a sum over the newest 65 steps, at one learning rate",
    source=_recurrent.GPIDE_SOURCE,
    learner=SACLearner,
    settings=_recurrent.SequenceSACSettings,
    network=GPIDENetwork,
    encoder="smoothing",
    preset=presets(_recurrent.GPIDE, _recurrent.GPIDE_SMALL),
    figures=("table-pomdp", "fig-pomdp"),
)
