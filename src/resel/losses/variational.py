"""The two parts of the evidence lower bound of Gaussian models, each a mean over dimensions."""

from __future__ import annotations

import math

from torch import Tensor

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def gaussian_log_likelihood(x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """log N(x; mean, std). (..., X) -> (...)

    How well what is seen was foretold, in the same bound.
    """
    return (-0.5 * ((x - mean) / std).square() - std.log() - _HALF_LOG_TWO_PI).mean(-1)
