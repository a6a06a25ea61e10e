"""Memory: finished episodes, the ring that keeps them, and the tape they are learned from."""

from resel.replay.buffer import Piece, ReplayBuffer
from resel.replay.packing import PackedBatch, pack
from resel.replay.sampling import sample_batch
from resel.replay.trajectory import Trajectory

__all__ = ["PackedBatch", "Piece", "ReplayBuffer", "Trajectory", "pack", "sample_batch"]
