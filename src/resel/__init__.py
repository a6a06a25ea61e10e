"""Recurrent off-policy reinforcement learning with a context-encoder-specific learning rate."""

__version__ = "0.1.0"

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
