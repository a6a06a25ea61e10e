"""The face a library user sees."""

from resel.agent._agent import Agent, RESeL
from resel.agent._configure import configure, preset_layer, usual_preset, world_of
from resel.agent.callbacks import (
    CheckpointEvery,
    EvaluateEvery,
    LearnProgress,
    SaveBest,
    StopAtReturn,
)

__all__ = [
    "Agent",
    "CheckpointEvery",
    "EvaluateEvery",
    "LearnProgress",
    "RESeL",
    "SaveBest",
    "StopAtReturn",
    "configure",
    "preset_layer",
    "usual_preset",
    "world_of",
]
