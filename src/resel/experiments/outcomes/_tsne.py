"""t-SNE for some thousand points: exact, with NumPy alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_EXAGGERATION = 12.0
_EARLY = 150
_ITERATIONS = 500
_SEARCH = 40


def tsne(points: NDArray[np.floating], perplexity: float = 30.0, seed: int = 1) -> Floats:
    """(N, D) -> (N, 2), neighbours kept together; begins with the two main components."""
    centred = np.asarray(points, np.float64) - np.mean(points, axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    if len(centred) < 4 or sizes[0] == 0:
        return np.zeros((len(centred), 2))
    start = np.zeros((len(centred), 2))
    main = (left * sizes)[:, :2]
    start[:, : main.shape[1]] = main / main[:, 0].std() * 1e-2
    start += np.random.default_rng(seed).normal(size=start.shape) * 1e-4
    affinity = _affinities(_squared_distances(centred), min(perplexity, (len(centred) - 1) / 3))
    return _descend(affinity, start)


def _squared_distances(points: Floats) -> Floats:
    norms = np.sum(points**2, axis=1)
    distances: Floats = np.maximum(norms[:, None] + norms - 2 * points @ points.T, 0.0)
    return distances  # (N, N)


def _affinities(distances: Floats, perplexity: float) -> Floats:
    """p_ij, with a Gaussian around each point that reaches `perplexity` neighbours."""
    count = len(distances)
    target = np.log(perplexity)
    off = ~np.eye(count, dtype=bool)
    scaled = distances / distances[off].mean()
    low, high = np.full(count, 1e-6), np.full(count, 1e6)
    for _ in range(_SEARCH):  # bisection of all precisions at once, in logarithms
        precision = np.sqrt(low * high)
        weights = np.exp(-scaled * precision[:, None]) * off + 1e-300
        total = weights.sum(1)
        entropy = np.log(total) + precision * (weights * scaled).sum(1) / total
        wide = entropy > target
        low, high = np.where(wide, precision, low), np.where(wide, high, precision)
    conditional = weights / total[:, None]
    joint: Floats = np.maximum((conditional + conditional.T) / (2 * count), 1e-12)
    return joint


def _descend(affinity: Floats, places: Floats) -> Floats:
    """Gradient descent with momentum and a gain for each coordinate."""
    velocity, gain = np.zeros_like(places), np.ones_like(places)
    rate = max(len(places) / _EXAGGERATION / 4, 50.0)
    for iteration in range(_ITERATIONS):
        early = iteration < _EARLY
        near = 1 / (1 + _squared_distances(places))
        np.fill_diagonal(near, 0.0)
        pull = (affinity * (_EXAGGERATION if early else 1.0) - near / near.sum()) * near
        gradient = 4 * (pull.sum(1)[:, None] * places - pull @ places)
        gain = np.maximum(np.where(gradient * velocity < 0, gain + 0.2, gain * 0.8), 0.01)
        velocity = (0.5 if early else 0.8) * velocity - rate * gain * gradient
        places = places + velocity
        places -= places.mean(0)
    return places
