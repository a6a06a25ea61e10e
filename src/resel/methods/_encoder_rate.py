"""The settings of the context encoder's own learning rate, for every method that has an encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from resel.config import one_of, positive, positive_or
from resel.errors import ConfigError
from resel.networks import LrScope


@dataclass(frozen=True)
class EncoderRate:
    """LR_CE."""

    lr_context_encoder: Annotated[
        float | Literal["auto"] | None, tyro.conf.arg(aliases=["--lr-ce"])
    ] = None
    """Learning rate of the context encoders (LR_CE); `auto` steers it until steps of the encoders
    alone move the outputs as much as steps of the other layers, None takes that of their
    network."""
    auto_lr_start: float | None = None
    """Where an automatic LR_CE starts; None takes 0.03 of that of the other layers."""
    lr_scope: LrScope = "encoder"
    """What LR_CE covers: the whole context encoder, or its recurrent layers alone."""

    def __post_init__(self) -> None:
        positive_or(self, "auto", "lr_context_encoder")
        positive(self, "auto_lr_start")
        one_of(self, "lr_scope", LrScope)
        if self.auto_lr_start is not None and self.lr_context_encoder != "auto":
            raise ConfigError(
                f"auto_lr_start={self.auto_lr_start} is where an automatic LR_CE starts: set "
                "lr_context_encoder to auto, or leave it out."
            )
