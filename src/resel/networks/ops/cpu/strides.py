"""Tensors as kernels take them: flat, with a stride from step to step."""

from __future__ import annotations

from torch import Tensor


def evenly_spaced(x: Tensor) -> bool:
    """Whether a stride leads through all steps of x (rows, length, channels), channels dense."""
    rows, length, width = x.shape
    stride = x.stride(1)
    joined = rows == 1 or x.stride(0) == length * stride
    return x.is_contiguous() or (x.stride(2) == 1 and stride >= width and joined)


def flat_places(x: Tensor) -> tuple[Tensor, int]:
    """x (rows, length, channels) as one run of numbers, and how far apart its steps lie in it.

    A copy is made only of what is not evenly spaced: half of a projection's output, say, is not
    copied.
    """
    rows, length, width = x.shape
    if x.is_contiguous() or not evenly_spaced(x):
        return x.contiguous().view(-1), width
    return x.as_strided(((rows * length - 1) * x.stride(1) + width,), (1,)), x.stride(1)
