"""The geometric form of the paper's bounds, and the constants that fit a measured curve best.

Glossary
    t       rollout step, from 0
    K_h     how much of a difference of hidden states is left after one step
    K_y     how much a difference of hidden states moves the output
    epsilon variation of the output where inputs and hidden states are equal
    d_t     |y_t - y'_t|, the variation at step t
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from resel.errors import BadInputError

Curve = NDArray[np.float64]

_GRID = 200
_REFINEMENTS = 60
_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class Effective:
    """Constants of Proposition 1 fitted to a measured curve: they describe it, and bound nothing.

    Suprema over all inputs and hidden states, which the proposition speaks of, are larger.
    """

    K_h: float
    K_y: float
    epsilon: float
    relative_error: float
    """Root of the mean squared residual, divided by the mean of the curve; 0 for a zero curve."""

    @property
    def amplification(self) -> float:
        """beta = K_y / (1 - K_h): how much the variation grows in the end, in units of epsilon."""
        return self.K_y / (1 - self.K_h)

    def variation(self, steps: int) -> Curve:
        """Proposition 1: epsilon + epsilon K_y (1 - K_h^t) / (1 - K_h) for t = 0, 1, ..."""
        return self.epsilon * (1 + self.K_y * _growth(self.K_h, steps))

    def mean_variation(self, steps: int) -> Curve:
        """Proposition 2, for the mean over steps 0 .. t:

        epsilon + epsilon K_y / (1 - K_h) - epsilon K_y (1 - K_h^(t+1)) / ((1 + t) (1 - K_h)^2)
        """
        t = np.arange(steps)
        lost = (1 - self.K_h ** (t + 1)) / ((1 + t) * (1 - self.K_h))
        return self.epsilon * (1 + self.amplification * (1 - lost))


def fit(curve: Sequence[float] | Curve) -> Effective:
    """Least squares of Proposition 1's form over K_h in [0, 1), K_y >= 0 and epsilon >= d_0.

    epsilon bounds the variation where hidden states are equal, as they are at the first step, so
    less than was measured there it cannot be. For a given K_h the form is linear in epsilon and
    epsilon K_y, so only K_h is searched for: on a grid in log(1 - K_h) and then by golden section.
    1 - K_h is not taken below 1 / (10 steps): a curve that still rises at its end does not tell
    how far it would.
    """
    d = np.asarray(curve, np.float64)
    if d.ndim != 1 or len(d) < 3 or not np.isfinite(d).all():
        raise BadInputError(f"A curve of at least 3 finite numbers is needed, not {len(d)}.")
    lowest = np.log(1 / (10 * len(d)))
    grid = np.linspace(0.0, lowest, _GRID)
    best = int(np.argmin([_error(d, z) for z in grid]))
    low, high = grid[min(best + 1, _GRID - 1)], grid[max(best - 1, 0)]
    z = _golden_section(d, low, high)
    if _error(d, grid[best]) <= _error(d, z):
        z = grid[best]
    K_h = float(1 - np.exp(z))
    epsilon, slope = _linear(d, _growth(K_h, len(d)))
    mean = d.mean()
    return Effective(
        K_h=K_h if slope > 0 else 0.0,
        K_y=slope / epsilon if epsilon > 0 else 0.0,
        epsilon=epsilon,
        relative_error=float(np.sqrt(_error(d, z) / len(d)) / mean) if mean > 0 else 0.0,
    )


def _growth(K_h: float, steps: int) -> Curve:
    """(1 - K_h^t) / (1 - K_h) = 1 + K_h + ... + K_h^(t-1)."""
    powers: Curve = np.power(K_h, np.arange(steps, dtype=np.float64))
    return (1 - powers) / (1 - K_h)


def _linear(d: Curve, g: Curve) -> tuple[float, float]:
    """epsilon and epsilon K_y of the best d = epsilon + epsilon K_y g."""
    lowest = max(float(d[0]), 1e-6 * float(d.max()))
    centred = g - g.mean()
    slope = float(centred @ d / (centred @ centred))
    epsilon = float(d.mean() - slope * g.mean())
    if slope < 0:
        return max(float(d.mean()), lowest), 0.0
    if epsilon < lowest:
        epsilon, slope = lowest, max(0.0, float(g @ (d - lowest) / (g @ g)))
    return epsilon, slope


def _error(d: Curve, z: float) -> float:
    """Sum of squares at K_h = 1 - e^z."""
    g = _growth(float(1 - np.exp(z)), len(d))
    epsilon, slope = _linear(d, g)
    return float(((d - epsilon - slope * g) ** 2).sum())


def _golden_section(d: Curve, low: float, high: float) -> float:
    for _ in range(_REFINEMENTS):
        a, b = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        low, high = (low, b) if _error(d, a) < _error(d, b) else (a, high)
    return float((low + high) / 2)
