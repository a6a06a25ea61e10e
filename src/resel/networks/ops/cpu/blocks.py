"""Blocks of LANES channels inside kernels: (steps, LANES) in a scratch, from and to flat arrays.

Steps of a sequence lie far apart in memory, often a power of two, and such lines push each other
out of the cache; a block of some steps, copied together, stays in the fastest one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from resel.networks.ops.cpu.numba_math import inlined
from resel.networks.ops.cpu.vectors import LANES, load, load_first, store, store_first


@inlined
def scratch(size: int, like: Any) -> Any:
    """Zeros that begin on a cache line: a vector that crosses one costs twice."""
    raw = np.zeros(size + 64 // like.itemsize, like.dtype)
    skip = (-raw.ctypes.data % 64) // like.itemsize
    return raw[skip : skip + size]


@inlined
def load_steps(
    flat: Any, first_place: int, steps: int, stride: int, first: int, wide: int, out: Any
) -> None:
    """Copy `wide` channels of some steps to (steps, LANES); channels beyond the last are zero.

    The steps lie far apart in memory: fetched in a run of their own they arrive together, one
    by one in a recurrence each would be waited for.
    """
    at = first_place * stride + first
    if wide == LANES:
        for k in range(steps):
            store(out, k * LANES, load(flat, at + k * stride))
    else:
        for k in range(steps):
            store(out, k * LANES, load_first(flat, at + k * stride, wide))


@inlined
def store_steps(
    block: Any, first_place: int, steps: int, stride: int, first: int, wide: int, flat: Any
) -> None:
    """The way back of `load_steps`."""
    at = first_place * stride + first
    if wide == LANES:
        for k in range(steps):
            store(flat, at + k * stride, load(block, k * LANES))
    else:
        for k in range(steps):
            store_first(flat, at + k * stride, load(block, k * LANES), wide)


@inlined
def gather(source: Any, first: int, wide: int, states: int, out: Any) -> None:
    """(channels, states) entries of one block turned into (states, LANES)."""
    for s in range(states):
        for c in range(wide):
            out[s * LANES + c] = source[(first + c) * states + s]
        for c in range(wide, LANES):
            out[s * LANES + c] = 0


@inlined
def scatter(block: Any, first: int, wide: int, states: int, out: Any) -> None:
    """The way back of `gather`."""
    for s in range(states):
        for c in range(wide):
            out[(first + c) * states + s] = block[s * LANES + c]
