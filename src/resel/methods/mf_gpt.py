"""MF-GPT: SAC on a causal Transformer over whole episodes, shared by policy and critics.

Ni et al. 2023 (twni2016/Memory-RL, `gpt_cnn`), as they run it on Key-to-Door: the observation
alone is read, by a GPT-2 of one block and one head (two and two at a length of 250), with a
temperature of 0.1 and an update for every fourth step.
"""

from __future__ import annotations

from typing import Any

from resel.methods import _shared_sac
from resel.methods._off_policy import presets
from resel.methods.registry import Method
from resel.networks import SharedNetwork

_TWO: dict[str, Any] = {"n_layers": 2, "n_heads": 2}
_SMALL: dict[str, Any] = {**_shared_sac.SMALL, "dropout": 0.0}
"""In a network this small dropout's noise drowns what the critics have to learn."""

METHOD = Method(
    name="mf-gpt",
    title="MF-GPT",
    summary="SAC on a GPT-2 over whole episodes that policy and critics share",
    source=_shared_sac.SOURCE,
    learner=_shared_sac.SharedSACLearner,
    settings=_shared_sac.SharedSACSettings,
    network=SharedNetwork,
    encoder="gpt",
    preset=presets(_shared_sac.PAPER, _SMALL, tasks=_shared_sac.by_task(at_250=_TWO)),
    figures=("fig-key-to-door",),
)
