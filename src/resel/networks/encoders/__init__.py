"""Context encoders by name: one file each, its settings beside the class.

An encoder of one's own is registered with `resel.register_encoder`, or named as an entry point of
the group `resel.encoders` by the package that has it.
"""

from resel.networks.encoders import gated, gpt, mamba, mlp, smoothing, transformer
from resel.networks.encoders.base import Encoder, Longest, State
from resel.networks.encoders.mamba import FeedForward, MambaEncoder, MambaMixer
from resel.networks.encoders.registry import (
    EncoderSpec,
    build_encoder,
    encoder_spec,
    encoders,
    register_encoder,
)

for _spec in (
    mamba.MAMBA,
    gated.GRU,
    gated.LSTM,
    mlp.MLP,
    transformer.TRANSFORMER,
    gpt.GPT,
    smoothing.SMOOTHING,
):
    register_encoder(_spec)

__all__ = [
    "Encoder",
    "EncoderSpec",
    "FeedForward",
    "Longest",
    "MambaEncoder",
    "MambaMixer",
    "State",
    "build_encoder",
    "encoder_spec",
    "encoders",
    "register_encoder",
]
