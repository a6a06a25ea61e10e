"""SAC-Transformer: SAC on windows of transitions, read by a causal Transformer.

Char and Schneider 2023 (IanChar/GPIDE, `pyb_transformer_sac`). Policy and both critics have a
Transformer each, of four blocks and eight heads; a token is (o_{t-1}, a_{t-1}, r_{t-1}, o_t -
o_{t-1}). Acting sees the newest 65 steps, which are computed anew at each.

Not taken over from their code: time-outs count as ends, targets begin with weights of their own,
padding is part of the batch normalisation, all losses are formed before the first step, steps and
updates come in blocks of 1000, each of which cuts an episode.
"""

from __future__ import annotations

from resel.methods import _recurrent
from resel.methods._off_policy import presets
from resel.methods.registry import Method
from resel.methods.sac import SACLearner
from resel.networks import TokenNetwork

METHOD = Method(
    name="sac-transformer",
    title="SAC-Transformer",
    summary="SAC with causal Transformers that read the newest 65 steps, at one learning rate",
    source=_recurrent.GPIDE_SOURCE,
    learner=SACLearner,
    settings=_recurrent.SequenceSACSettings,
    network=TokenNetwork,
    encoder="transformer",
    preset=presets(_recurrent.GPIDE, _recurrent.GPIDE_SMALL),
    figures=("table-pomdp", "fig-pomdp"),
)
