"""Recurrent off-policy reinforcement learning with a context-encoder-specific learning rate."""

import importlib
from typing import TYPE_CHECKING

from resel._gymnasium import register_when_imported

__version__ = "0.2.0"

if TYPE_CHECKING:
    from resel.agent import (
        Agent,
        CheckpointEvery,
        EvaluateEvery,
        LearnProgress,
        RESeL,
        SaveBest,
        StopAtReturn,
        configure,
    )
    from resel.config import Config
    from resel.envs import AutoresetHelper
    from resel.errors import ReselError
    from resel.methods import Learner, Method, register_method
    from resel.networks import Encoder, EncoderSpec, register_encoder
    from resel.training import PolicyState, TrainProgress

__all__ = [
    "Agent",
    "AutoresetHelper",
    "CheckpointEvery",
    "Config",
    "Encoder",
    "EncoderSpec",
    "EvaluateEvery",
    "LearnProgress",
    "Learner",
    "Method",
    "PolicyState",
    "RESeL",
    "ReselError",
    "SaveBest",
    "StopAtReturn",
    "TrainProgress",
    "configure",
    "register_encoder",
    "register_method",
]

_ROOMS = {
    "config": ("Config",),
    "envs": ("AutoresetHelper",),
    "errors": ("ReselError",),
    "methods": ("Learner", "Method", "register_method"),
    "networks": ("Encoder", "EncoderSpec", "register_encoder"),
    "training": ("PolicyState", "TrainProgress"),
}
"""Where names come from; those of no other room are the agent's."""
_HOMES = dict.fromkeys(__all__, "agent")
_HOMES |= {name: room for room, names in _ROOMS.items() for name in names}


if not TYPE_CHECKING:  # a type checker would take it that there is every name

    def __getattr__(name):
        """A public name, or the room of that name, is loaded when it is first asked for."""
        room = _HOMES.get(name, name)
        if room not in {"agent", *_ROOMS}:
            raise AttributeError(f"module 'resel' has no attribute {name!r}")
        if room not in ("envs", "errors"):
            importlib.import_module("resel.agent")  # settings ask for methods that are there
        module = importlib.import_module(f"resel.{room}")
        register_when_imported()
        return getattr(module, name) if name in _HOMES else module


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


register_when_imported()
