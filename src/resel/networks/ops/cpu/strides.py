"""Tensors as kernels take them: an address, with a stride from step to step."""

from __future__ import annotations

from torch import Tensor


def evenly_spaced(x: Tensor) -> bool:
    """Whether a stride leads through all steps of x (rows, length, channels), channels dense."""
    if x.is_contiguous():
        return True
    rows, length, width = x.shape
    across, stride, along = x.stride()
    return along == 1 and stride >= width and (rows == 1 or across == length * stride)


def spaced(x: Tensor) -> tuple[Tensor, int]:
    """x (rows, length, channels) evenly spaced, and how far apart its steps lie.

    A copy is made only of what is not: half of a projection's output, say, is not copied.
    """
    if x.is_contiguous() or not evenly_spaced(x):
        return x.contiguous(), x.shape[2]
    return x, x.stride(1)
