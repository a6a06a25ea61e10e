"""A random batch, as learning asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from resel.config import AlgorithmConfig
from resel.data.buffer import ReplayBuffer
from resel.data.packing import Batch, pack


def sample_batch(
    buffer: ReplayBuffer,
    settings: AlgorithmConfig,
    suitable_rows: Callable[[Sequence[int]], int],
    rng: np.random.Generator,
) -> Batch:
    """Whole trajectories (or windows), on as many tapes as `suitable_rows` of the encoder says."""
    if settings.context_length is None:
        pieces = buffer.sample(settings.batch_steps, rng)
    else:
        pieces = buffer.sample_windows(settings.batch_steps, settings.context_length, rng)
    return pack(buffer, pieces, suitable_rows([piece.length + 1 for piece in pieces]))
