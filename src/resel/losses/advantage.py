"""Advantages and the losses of on-policy methods.

Schulman et al. 2016, "High-Dimensional Continuous Control Using Generalized Advantage Estimation",
and 2017, "Proximal Policy Optimization Algorithms".

Glossary
    A advantage, rho probability ratio of the policy now and when it acted
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import mse_loss, smooth_l1_loss


def continues(mask: Tensor, is_first: Tensor) -> Tensor:
    """Where the next slot is a further step, that counts, of the same episode."""
    after = torch.zeros_like(mask)
    after[:, :-1] = mask[:, 1:] & ~is_first[:, 1:]
    return mask & after


def advantages(
    reward: Tensor,
    value: Tensor,
    terminated: Tensor,
    mask: Tensor,
    is_first: Tensor,
    gamma: float,
    gae_lambda: float,
    dropped: Tensor | None = None,
) -> Tensor:
    """Generalized advantage estimates at the steps that count, 0 elsewhere.

    delta_t = r_t + gamma V_{t+1} - V_t without V_{t+1} where the world ended, and
    A_t = delta_t + gamma lambda A_{t+1} while the episode goes on. At steps that are `dropped`
    A_t is 0. All are (rows, length).
    """
    goes_on = continues(mask, is_first).to(value.dtype)
    counts = mask if dropped is None else mask & ~dropped
    found = torch.zeros_like(value)
    later = torch.zeros_like(value[:, 0])
    after = torch.zeros_like(value[:, 0])
    for t in reversed(range(value.shape[1])):
        delta = reward[:, t] + gamma * (1 - terminated[:, t]) * after - value[:, t]
        later = delta + gamma * gae_lambda * goes_on[:, t] * later
        later = torch.where(counts[:, t], later, torch.zeros_like(later))
        found[:, t], after = later, value[:, t]
    return found


def normalized(advantage: Tensor, mask: Tensor) -> Tensor:
    """Advantages less their mean, over their deviation, both of the steps that count."""
    counted = advantage[mask]
    spread = counted.std() if counted.numel() > 1 else torch.zeros_like(counted.sum())
    return torch.where(mask, (advantage - counted.mean()) / (spread + 1e-5), advantage)


def clipped_policy_term(
    log_prob: Tensor, acted_log_prob: Tensor, advantage: Tensor, clip: float
) -> Tensor:
    """-min(rho A, clip(rho, 1 - clip, 1 + clip) A) (Schulman et al. 2017, equation 7)."""
    ratio = (log_prob - acted_log_prob).exp()
    return -torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)


def clipped_value_term(
    value: Tensor, acted_value: Tensor, target: Tensor, clip: float, *, huber: bool = False
) -> Tensor:
    """The larger error of the value, and of one that stays within `clip` of the former.

    Errors are squared, or with `huber` 0.5 d^2 below 1 and |d| - 0.5 from there on.
    """
    near = acted_value + (value - acted_value).clamp(-clip, clip)
    error = smooth_l1_loss if huber else mse_loss
    far_off, near_off = (error(v, target, reduction="none") for v in (value, near))
    return torch.maximum(far_off, near_off)
