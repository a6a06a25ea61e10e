"""Recurrent blocks by name. A new one is a file here and a line in `_BUILDERS`."""

from __future__ import annotations

from collections.abc import Callable

from resel.config import NetworkConfig
from resel.networks.encoders.base import Encoder, State
from resel.networks.encoders.gated import GRUEncoder, LSTMEncoder
from resel.networks.encoders.mamba import MambaEncoder
from resel.networks.encoders.mlp import MLPEncoder

__all__ = ["Encoder", "State", "build_encoder"]


def _mamba(config: NetworkConfig) -> Encoder:
    return MambaEncoder(
        config.width,
        config.blocks,
        expansion=config.expansion,
        state_size=config.state_size,
        conv_kernel=config.conv_kernel,
        feed_forward=config.feed_forward,
    )


_BUILDERS: dict[str, Callable[[NetworkConfig], Encoder]] = {
    "mamba": _mamba,
    "gru": lambda config: GRUEncoder(config.width, config.blocks),
    "lstm": lambda config: LSTMEncoder(config.width, config.blocks),
    "mlp": lambda config: MLPEncoder(config.width, config.blocks),
}


def build_encoder(config: NetworkConfig) -> Encoder:
    """The recurrent block that the config names."""
    return _BUILDERS[config.encoder](config)
