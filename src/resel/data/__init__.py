"""Finished episodes, the ring that keeps them, and the batches they are learned from."""

from resel.data.buffer import EpisodeSlice, ReplayBuffer
from resel.data.packing import Batch, pack
from resel.data.priorities import Priorities
from resel.data.rollout import Rollout, Taken
from resel.data.samplers import (
    Episodes,
    NewestEpisodes,
    PrioritizedTransitions,
    Sampler,
    Trajectories,
    Transitions,
    Windows,
    WindowsBySteps,
)
from resel.data.schedules import Moment, PerEpisode, PerRollout, PerStep, Pretrained, Schedule
from resel.data.trajectory import Trajectory, constant_columns

__all__ = [
    "Batch",
    "EpisodeSlice",
    "Episodes",
    "Moment",
    "NewestEpisodes",
    "PerEpisode",
    "PerRollout",
    "PerStep",
    "Pretrained",
    "Priorities",
    "PrioritizedTransitions",
    "ReplayBuffer",
    "Rollout",
    "Sampler",
    "Schedule",
    "Taken",
    "Trajectories",
    "Trajectory",
    "Transitions",
    "Windows",
    "WindowsBySteps",
    "constant_columns",
    "pack",
]
