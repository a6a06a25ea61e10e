"""Observations that are images: how their numbers lie one after another once they are flat."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces


class ImageShape(NamedTuple):
    """An image as it lies flat in an observation."""

    height: int
    width: int
    channels: int
    channels_first: bool
    """Whether all of a colour stands together, instead of all colours of a pixel."""
    scale: float
    """What numbers are divided by: the highest of whole numbers, 1 of others."""


class FlatImage(spaces.Box):
    """A vector that is a flat image of (channels, height, width) numbers in [0, 1].

    To everyone who does not ask it is a Box like any other.
    """

    def __init__(self, channels: int, height: int, width: int) -> None:
        super().__init__(0.0, 1.0, (channels * height * width,), np.float32)
        self.image = ImageShape(height, width, channels, channels_first=True, scale=1.0)


def image_shape(space: spaces.Space[Any]) -> ImageShape | None:
    """The image that an observation is, flat or a Box of (height, width, channels); else None."""
    if isinstance(space, FlatImage):
        return space.image
    if not isinstance(space, spaces.Box) or len(space.shape) != 3:
        return None
    whole = np.issubdtype(space.dtype, np.integer)
    scale = max(float(np.max(space.high)), 1.0) if whole else 1.0
    return ImageShape(*space.shape, channels_first=False, scale=scale)
