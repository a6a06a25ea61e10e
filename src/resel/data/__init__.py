"""Memory: finished episodes, the ring that keeps them, and the tape they are learned from."""

from resel.data.buffer import EpisodeSlice, ReplayBuffer
from resel.data.packing import Batch, pack
from resel.data.samplers import sample_batch
from resel.data.trajectory import Trajectory, constant_columns

__all__ = [
    "Batch",
    "EpisodeSlice",
    "ReplayBuffer",
    "Trajectory",
    "constant_columns",
    "pack",
    "sample_batch",
]
