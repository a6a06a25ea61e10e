"""Gaussians of meta-learning: beliefs about a task, and how far a policy has moved.

Glossary
    K tasks, N steps of each, Z entries of a belief, A action size
"""

from __future__ import annotations

import torch
from torch import Tensor


def product_of_gaussians(mean: Tensor, variance: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance (K, Z) of the product of the factors (K, N, Z) that count, mask (K, N).

    PEARL (Rakelly et al. 2019), equation 1: precisions add up, and means weigh by them.
    """
    precision = torch.where(mask[..., None], 1 / variance, torch.zeros_like(variance))
    total = precision.sum(1)
    weighed = torch.where(mask[..., None], mean * precision, torch.zeros_like(mean)).sum(1)
    return weighed / total, 1 / total


def kl_from_standard(mean: Tensor, variance: Tensor) -> Tensor:
    """KL(N(mean, variance) || N(0, 1)) of every entry."""
    return 0.5 * (variance + mean.square() - 1 - variance.log())


def gaussian_kl(mean: Tensor, log_std: Tensor, other_mean: Tensor, other_log_std: Tensor) -> Tensor:
    """KL(first || other) of diagonal Gaussians, summed over the entries. (..., A) -> (...)"""
    spread = (2 * log_std).exp() + (mean - other_mean).square()
    return (other_log_std - log_std + 0.5 * spread * (-2 * other_log_std).exp() - 0.5).sum(-1)
