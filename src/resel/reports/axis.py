"""How far the axis of returns reaches: what was learned fills it, not how bad the start was."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

_FEWEST = 4
"""Points of a line that has a second half."""
_SQUEEZED = 0.2
"""Part of the whole axis; if the second half of training fills more of it, nothing is cut off."""
_LEVEL = 0.001
"""Nor if it fills less: there is nothing to see but the way up."""
_MOST_CUT = 0.45
"""Nor if more than this part of all points would be."""
_LEAST = 0.05
"""Part of the whole axis that is shown at least, or noise would look like a difference."""
_PADDING = 0.04

Curve = tuple[Sequence[float], Sequence[float]]
"""Steps and values."""


def fitted_axis(
    curves: Iterable[Curve], edges: Iterable[Curve] = ()
) -> tuple[float, float, float] | None:
    """Lower end, upper end, and the lowest value that is cut off; None if all is to be shown.

    The axis holds the second half of every curve, with the edges of its shading, and whatever lies
    higher. As much again is left below, from which the curves come up.
    """
    kept = list(curves)
    every = [y for _, values in kept for y in values if math.isfinite(y)]
    late = [y for curve in kept for y in _second_half(curve)]
    if not every:
        return None
    lowest, highest = min(every), max(every)
    span, whole = highest - min(late), highest - lowest
    if not _LEVEL * whole < span <= _SQUEEZED * whole:
        return None
    shaded = [y for curve in edges for y in _second_half(curve)]
    low, high = min(late + shaded), max([highest, *shaded])
    low -= max(high - low, _LEAST * whole)
    if sum(y < low for y in every) > _MOST_CUT * len(every):
        return None
    return low, high + _PADDING * (high - low), lowest


def _second_half(curve: Curve) -> list[float]:
    known = [(x, y) for x, y in zip(*curve, strict=True) if math.isfinite(y)]
    if len(known) < _FEWEST:
        return [y for _, y in known]
    half = (known[0][0] + known[-1][0]) / 2
    return [y for x, y in known if x >= half]
