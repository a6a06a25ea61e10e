"""Finished episodes, the ring that keeps them, and the batches they are learned from."""

from resel.data.buffer import EpisodeSlice, ReplayBuffer
from resel.data.packing import Batch, pack, pack_episodes
from resel.data.priorities import Priorities
from resel.data.rollout import Rollout, Taken
from resel.data.samplers import (
    Episodes,
    Histories,
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
from resel.data.trials import ADAPTED, CONTEXT, TASK, TRIAL, NewestTrials, StepsByTask

__all__ = [
    "ADAPTED",
    "CONTEXT",
    "TASK",
    "TRIAL",
    "Batch",
    "EpisodeSlice",
    "Episodes",
    "Histories",
    "Moment",
    "NewestEpisodes",
    "NewestTrials",
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
    "StepsByTask",
    "Taken",
    "Trajectories",
    "Trajectory",
    "Transitions",
    "Windows",
    "WindowsBySteps",
    "constant_columns",
    "pack",
    "pack_episodes",
]
