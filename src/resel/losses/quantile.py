"""Distributional critics: targets without their largest quantiles, and the quantile Huber loss.

Kuznetsov et al. 2020, Controlling Overestimation Bias with Truncated Mixture of Continuous
Distributional Quantile Critics.

Glossary
    E critics, M quantiles of each, K kept target quantiles
"""

from __future__ import annotations

import torch
from torch import Tensor

from resel.losses.td import masked_mean


def truncated_quantiles(z: Tensor, dropped: int) -> Tensor:
    """The quantiles of all critics in order, without the E x `dropped` largest.

    Section 3, figure 2: the smallest of the pooled atoms are kept. z is (E, rows, length, M); the
    result is (rows, length, K) with K = E (M - dropped).
    """
    pooled = z.permute(1, 2, 0, 3).flatten(2)  # (rows, length, E M)
    return pooled.sort(-1).values[..., : z.shape[0] * (z.shape[-1] - dropped)]


def quantile_target(
    reward: Tensor,
    terminated: Tensor,
    next_z: Tensor,
    next_log_prob: Tensor,
    alpha: Tensor,
    gamma: float,
) -> Tensor:
    """y_i = r + gamma (1 - terminated) (z_i - alpha log pi), Eq. (11). (rows, length, K)"""
    soft = next_z - alpha * next_log_prob[..., None]
    return reward[..., None] + gamma * (1 - terminated[..., None]) * soft


def quantile_huber_loss(z: Tensor, y: Tensor, mask: Tensor, n: int) -> Tensor:
    """Huber loss (kappa 1) of every quantile against every target, weighted by |tau - 1{u < 0}|,
    averaged over critics, quantiles, targets and steps; Section 3, with tau_j = (j + 1/2) / M.

    z is (E, rows, length, M), y is (rows, length, K).
    """
    count = z.shape[-1]
    tau = (torch.arange(count, device=z.device, dtype=z.dtype) + 0.5) / count
    u = y[:, :, None] - z[..., None]  # (E, rows, length, M, K)
    size = u.abs()
    huber = torch.where(size > 1, size - 0.5, 0.5 * u.square())
    weighted = (tau[:, None] - (u < 0).to(z.dtype)).abs() * huber
    return masked_mean(weighted.mean((0, 3, 4)), mask, n)
