"""Observations that are or hold images: where these lie in a flat observation, and how large.

A Box of uint8 with two dimensions is a grey image. A Box with three is an image with channels, if
its numbers have finite bounds. Its channels are the end of the shape that differs from the middle,
as in (84, 84, 3) and (3, 84, 84); where both differ, the smaller one; where none does, the last.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

_BRIGHTEST = 2**16 - 1
"""Above this a bound says what a type of numbers holds, not how bright a pixel can be."""


class ImageShape(NamedTuple):
    """An image as it lies flat in an observation."""

    height: int
    width: int
    channels: int
    channels_first: bool
    """Whether all of a colour stands together, instead of all colours of a pixel."""
    scale: float
    """What numbers are divided by: the largest bound, at least 1."""
    begin: int = 0
    """Which number of the observation is its first."""

    @property
    def size(self) -> int:
        """Its numbers."""
        return self.height * self.width * self.channels

    def __str__(self) -> str:
        return f"{self.height} x {self.width} x {self.channels}"


class FlatImage(spaces.Box):
    """A vector that is a flat image of (channels, height, width) numbers in [0, 1].

    To everyone who does not ask it is a Box like any other.
    """

    def __init__(self, channels: int, height: int, width: int) -> None:
        super().__init__(0.0, 1.0, (channels * height * width,), np.float32)
        self.image = ImageShape(height, width, channels, channels_first=True, scale=1.0)


def image_shape(space: spaces.Space[Any]) -> ImageShape | None:
    """The image that a space is by itself; None if it is none."""
    if isinstance(space, FlatImage):
        return space.image
    if not isinstance(space, spaces.Box) or math.prod(space.shape) == 0:
        return None
    if len(space.shape) == 2 and space.dtype == np.uint8:
        return ImageShape(*space.shape, 1, channels_first=False, scale=_scale(space))
    if len(space.shape) != 3 or not _scale(space) <= _BRIGHTEST:
        return None
    first, middle, last = space.shape
    alike = (first == middle, middle == last)
    if alike == (False, True) or (alike[0] == alike[1] and first < last):
        return ImageShape(middle, last, first, channels_first=True, scale=_scale(space))
    return ImageShape(first, middle, last, channels_first=False, scale=_scale(space))


def is_bytes(space: spaces.Space[Any]) -> bool:
    """Whether a space is an image of uint8, which is stored as it is."""
    return space.dtype == np.uint8 and image_shape(space) is not None


def _scale(space: spaces.Box) -> float:
    bounds = (space.low, space.high)
    return max(1.0, *(float(np.max(np.abs(bound.astype(np.float64)))) for bound in bounds))
