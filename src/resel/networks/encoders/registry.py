"""What an encoder says of itself, and how one is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from resel.config import Config
from resel.networks.encoders.base import Encoder, Longest
from resel.registry import ENCODERS


def _unlimited(settings: Any) -> None:
    return None


@dataclass(frozen=True)
class EncoderSpec:
    """An encoder as people ask for it."""

    name: str
    summary: str
    """One line."""
    settings: type[Any]
    """A frozen dataclass; its fields become flags."""
    build: Callable[[Any, int], Encoder]
    """From settings and width to the encoder."""
    memory: bool = True
    """Whether it carries anything from one step to the next."""
    reach: Callable[[Any], int | None] = _unlimited
    """From settings to how many steps it sees while acting, the present one included; None for as
    long as the trajectory."""
    longest: Callable[[Any], Longest | None] = _unlimited
    """From settings to the longest trajectory that it can read at once; None for any."""
    carries_on: bool = True
    """Whether what it learned from windows holds for longer episodes too, as with a memory that is
    handed on; not so where it counts places or adds up all steps."""
    batch_statistics: bool = False
    """Whether steps of a batch see each other while learning, as with batch normalisation."""
    hidden_units: bool = True
    """Whether its state is activations alone, so that any small numbers are a state; not so where
    it counts steps or keeps them."""
    cell_state: bool = False
    """Whether the last part of its state is the cell state of an LSTM."""
    build_from: Callable[[Any, int, int], Encoder] | None = None
    """From settings, inputs and width to an encoder whose inputs need not be as wide as it is; None
    if there is no such."""


ENCODERS.kind = EncoderSpec


def register_encoder(spec: EncoderSpec) -> EncoderSpec:
    """Make an encoder available to every method that has one."""
    ENCODERS.add(spec)
    return spec


def encoder_spec(name: str) -> EncoderSpec:
    """The encoder of that name."""
    spec = ENCODERS.get(name)
    assert isinstance(spec, EncoderSpec)
    return spec


def encoders() -> tuple[list[EncoderSpec], dict[str, str]]:
    """All encoders, and why those that cannot be had cannot."""
    found, faults = ENCODERS.all()
    return [spec for spec in found if isinstance(spec, EncoderSpec)], faults


def build_encoder(config: Config, width: int, inputs: int | None = None) -> Encoder:
    """The encoder that the config names; with `inputs`, one that has a `build_from`."""
    assert config.encoder is not None
    spec = encoder_spec(config.encoder)
    if inputs is None:
        return spec.build(config.encoder_settings, width)
    assert spec.build_from is not None
    return spec.build_from(config.encoder_settings, inputs, width)
