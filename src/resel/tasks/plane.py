"""A point in the plane, drawn from above."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_SIZE, _LOW, _HIGH = 300, np.array([-1.0, -0.5]), np.array([1.0, 1.5])
"""Pixels along each side, and the corners of the part of the plane that is drawn."""


def plane_picture(
    path: Sequence[NDArray[np.float64]], goals: Sequence[NDArray[np.float64]], radius: float
) -> NDArray[np.uint8]:
    """The way so far and the goals as (height, width, 3) pixels."""
    image = np.full((_SIZE, _SIZE, 3), 245, np.uint8)
    unit = (np.arange(_SIZE) + 0.5) / _SIZE
    x, y = np.meshgrid(*(_LOW[i] + (_HIGH[i] - _LOW[i]) * unit for i in range(2)))

    def disc(centre: NDArray[np.float64], radius: float, colour: tuple[int, int, int]) -> None:
        image[(x - centre[0]) ** 2 + (y - centre[1]) ** 2 <= radius**2] = colour

    for goal in goals:
        disc(goal, radius, (122, 190, 120))
    for position in path[:-1]:
        disc(position, 0.012, (150, 160, 180))
    disc(path[-1], 0.02, (46, 98, 196))
    return image[::-1]  # up is up
