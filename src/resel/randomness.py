"""Named random streams: every use of chance has its own generator, seeded from the run's seed.

Streams are independent of each other and of the global generators of numpy and torch, and their
states are plain data, so a run can be saved and continued with the same numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from resel.errors import DamagedFileError

LARGEST_SEED = 2**31 - 1
"""Any environment accepts one below it."""


def stream_seed(seed: int, name: str) -> np.random.SeedSequence:
    """The seed of one named stream of a run."""
    return np.random.SeedSequence([seed, zlib.crc32(name.encode())])


def numpy_stream(seed: int, name: str) -> np.random.Generator:
    """A numpy generator for one purpose."""
    return np.random.Generator(np.random.PCG64(stream_seed(seed, name)))


def torch_stream(seed: int, name: str, device: torch.device | str = "cpu") -> torch.Generator:
    """A torch generator for one purpose, on the device that uses it."""
    generator = torch.Generator(device)
    generator.manual_seed(int(stream_seed(seed, name).generate_state(1, np.uint64)[0] >> 1))
    return generator


def draw_seed(generator: np.random.Generator) -> int:
    """A seed that any environment accepts."""
    return int(generator.integers(LARGEST_SEED))


def numpy_state(generator: np.random.Generator) -> dict[str, Any]:
    """The state of a stream as JSON data."""
    return dict(generator.bit_generator.state)


def restore_numpy(generator: np.random.Generator, state: Mapping[str, Any]) -> None:
    """Put a stream back where `numpy_state` found it."""
    try:
        for name in numpy_state(generator):
            state[name]  # numpy itself is not clear about what is missing
        generator.bit_generator.state = dict(state)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise DamagedFileError(f"A saved random stream cannot be restored: {error}.") from error
