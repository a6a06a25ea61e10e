"""What beliefs about a task learn from: how they move, and what they foretell.

Zintgraf et al. 2020, "VariBAD: A Very Good Method for Bayes-Adaptive Deep RL via Meta-Learning".

Glossary
    q_t belief after t steps, a Gaussian with independent entries; N entries of z
"""

from __future__ import annotations

import torch
from torch import Tensor


def with_last(mask: Tensor, is_first: Tensor) -> Tensor:
    """Steps that count, and the observation behind the last one of each episode. (rows, length)"""
    after = torch.zeros_like(mask)
    after[:, 1:] = mask[:, :-1] & ~is_first[:, 1:]
    return mask | after


def elbo_loss(
    kl: Tensor, error: Tensor, holds: Tensor, pairs: Tensor, kl_weight: float, trials: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """-ELBO up to a constant (section 3.2, equations 8 to 10), and its two parts.

    Of every belief q_t: squared errors of what it foretells, of steps of all of its trial, past and
    future, and kl_weight KL(q_t || q_{t-1}). Summed over all, averaged over trials. kl and holds
    are (rows, K) of K beliefs, error and pairs (rows, K, M) of M steps; where it does not hold,
    they do not count.
    """
    told = torch.where(pairs, error, torch.zeros_like(error)).sum() / trials
    moved = torch.where(holds, kl, torch.zeros_like(kl)).sum() / trials
    return told + kl_weight * moved, told, moved
