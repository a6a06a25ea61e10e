"""The two parts of the evidence lower bound of Gaussian models, each a mean over dimensions."""

from __future__ import annotations

import math

from torch import Tensor

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def gaussian_kl(mean: Tensor, std: Tensor, prior_mean: Tensor, prior_std: Tensor) -> Tensor:
    """KL(N(mean, std) || N(prior_mean, prior_std)). (..., Z) -> (...)

    What the posterior may differ from the prior in Chung et al. 2015, A Recurrent Latent Variable
    Model for Sequential Data, and Han et al. 2020, Variational Recurrent Models for Solving
    Partially Observable Control Tasks.
    """
    apart = ((mean - prior_mean).square() + std.square()) / (2 * prior_std.square())
    return (prior_std.log() - std.log() + apart - 0.5).mean(-1)


def gaussian_log_likelihood(x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """log N(x; mean, std). (..., X) -> (...)

    How well what is seen was foretold, in the same bound.
    """
    return (-0.5 * ((x - mean) / std).square() - std.log() - _HALF_LOG_TWO_PI).mean(-1)
