"""MF-LSTM: SAC on an LSTM over whole episodes, shared by policy and critics.

Ni et al. 2023 (twni2016/Memory-RL, `lstm_cnn`), as they run it on Key-to-Door, where RESeL's paper
calls it MF-RNN. It is `mf-gpt` with another encoder; that of `mf-rnn` is another method.
"""

from __future__ import annotations

from dataclasses import dataclass

from resel.config import Count, scaled
from resel.methods import _shared_sac
from resel.methods._off_policy import presets
from resel.methods.registry import Method
from resel.networks import SharedNetwork


@dataclass(frozen=True)
class MFLSTMNetwork(SharedNetwork):
    """Sizes of the encoder, policy and critics."""

    width: Count = scaled(128)
    """Width of the context encoder."""


METHOD = Method(
    name="mf-lstm",
    title="MF-RNN (LSTM)",
    summary="SAC on an LSTM over whole episodes that policy and critics share",
    source=_shared_sac.SOURCE,
    learner=_shared_sac.SharedSACLearner,
    settings=_shared_sac.SharedSACSettings,
    network=MFLSTMNetwork,
    encoder="lstm",
    preset=presets(
        {**_shared_sac.PAPER, "initialisation": "orthogonal"},
        {**_shared_sac.SMALL, "initialisation": "orthogonal"},
        tasks=_shared_sac.by_task(at_120={"n_layers": 2}),
    ),
    figures=("fig-key-to-door",),
)
