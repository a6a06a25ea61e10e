"""What a context encoder learns from, where it is not taught by policy and critics.

Glossary
    n steps, Z numbers of a context, K tasks
    z context, m moving mean of the contexts of a task
"""

from __future__ import annotations

import torch
from torch import Tensor

_RIDGE = 1e-3
"""Added to the diagonal of the kernel's matrix."""
_CLOSE = 1e-3
"""A distance from the means below which contexts are drawn no closer."""


def parameter_error(context: Tensor, parameters: Tensor) -> Tensor:
    """Squared error of the context as an estimate of what is hidden, at every step.

    RESeL, appendix on baselines, L^OSI; here a mean over the numbers, of which those the
    parameters do not fill are to be 0. (..., Z) and (..., C) -> (...)
    """
    missing = context.shape[-1] - parameters.shape[-1]
    return (context - torch.nn.functional.pad(parameters, (0, missing))).square().mean(-1)


def transition_error(change: Tensor, observation: Tensor, after: Tensor) -> Tensor:
    """Squared error of a foretold change of the observation, at every step.

    RESeL, appendix on baselines, Eq. (eq_dm_ce_loss); a mean over the observation.
    """
    return (change + observation - after).square().mean(-1)


def task_means(context: Tensor, of_task: Tensor) -> tuple[Tensor, Tensor]:
    """The mean context of each task, 0 of one without steps; which have some.

    of_task (n, K) is 1 where a step is of a task; (n, Z) -> (K, Z), (K,).
    """
    count = of_task.sum(0)
    return of_task.T @ context / count.clamp(min=1)[:, None], count > 0


def consistency(context: Tensor, mean: Tensor) -> Tensor:
    """How far contexts (n, Z) are from the moving mean of their task (n, Z), root mean square.

    Luo et al. 2022. Without a gradient where they are as close as they need be, which
    also is where a root has none.
    """
    square = (context - mean).square().mean()
    distance = square.clamp(min=_CLOSE**2).sqrt()
    return torch.where(square > _CLOSE**2, distance, square.detach().sqrt())


def diversity(means: Tensor, known: Tensor, sharpness: float) -> Tensor:
    """-log det of the kernel's matrix: large where tasks have the same mean.

    Luo et al. 2022. The kernel of two tasks is the mean over the numbers of
    exp(-sharpness (difference)^2). means (K, Z); tasks that are not known (K,) do not count.
    """
    difference = means[:, None] - means  # (K, K, Z)
    kernel = (-sharpness * difference.square()).exp().mean(-1)
    kernel = torch.where(known[:, None] & known, kernel, torch.zeros_like(kernel))
    diagonal = 1 - (1 - _RIDGE) * known.to(kernel.dtype)  # that of one not known is then 1
    log_det: Tensor = torch.linalg.slogdet(kernel + torch.diag(diagonal)).logabsdet
    return -log_det


def relation(
    distance: Tensor, spread: Tensor, weights: tuple[float, float], spread_below: float
) -> Tensor:
    """RMDM: contexts close to the mean of their task, means of tasks apart from each other.

    Luo et al. 2022. While the first is not reached, that is while the distance is not
    `spread_below`, the second is left out.
    """
    together, apart = weights
    return together * distance + torch.where(
        distance < spread_below, apart * spread, torch.zeros_like(spread)
    )
