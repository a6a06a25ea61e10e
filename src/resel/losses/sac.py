"""The equations of the paper's Appendix C, one pure function each.

Glossary
    places are (rows, length); E critic heads; A actions
    y targets, q critic values, V soft value of the next observation, alpha temperature
    mask marks the steps that count; n is their number

For Discrete actions expectations over the policy are exact sums, so no action is sampled.
"""

from __future__ import annotations

import torch
from torch import Tensor


def masked_mean(x: Tensor, mask: Tensor, n: int) -> Tensor:
    """Mean over the places that count."""
    return torch.where(mask, x, torch.zeros_like(x)).sum() / n


def next_step(x: Tensor) -> Tensor:
    """x_{t+1} at place t; the last place of a row, never valid, gets zero."""
    return torch.cat([x[:, 1:], torch.zeros_like(x[:, :1])], 1)


def soft_value(q: Tensor, log_prob: Tensor, alpha: Tensor) -> Tensor:
    """min over the drawn heads of Q'(h, a~) - alpha log pi(a~ | h), Eq. (target_value, _cont).

    q is (heads, rows, length).
    """
    return q.min(0).values - alpha * log_prob


def soft_value_discrete(q: Tensor, log_probs: Tensor, alpha: Tensor) -> Tensor:
    """The same as an expectation over all actions; q is (heads, rows, length, A)."""
    return (log_probs.exp() * (q.min(0).values - alpha * log_probs)).sum(-1)


def td_target(reward: Tensor, terminated: Tensor, next_value: Tensor, gamma: float) -> Tensor:
    """y = r + gamma (1 - terminated) V; a truncated episode goes on in the value."""
    return reward + gamma * (1 - terminated) * next_value


def critic_loss(q: Tensor, y: Tensor, mask: Tensor, n: int) -> Tensor:
    """Squared error summed over the heads, averaged over steps, Eq. (redq_critic_loss)."""
    return masked_mean((q - y).square().sum(0), mask, n)


def policy_loss(q: Tensor, log_prob: Tensor, alpha: Tensor, mask: Tensor, n: int) -> Tensor:
    """alpha log pi - mean over the heads of Q, Eq. (redq_actor_loss); q is (E, rows, length)."""
    return masked_mean(alpha * log_prob - q.mean(0), mask, n)


def policy_loss_discrete(
    q: Tensor, log_probs: Tensor, alpha: Tensor, mask: Tensor, n: int
) -> Tensor:
    """The same as an expectation over all actions; q is (E, rows, length, A)."""
    return masked_mean((log_probs.exp() * (alpha * log_probs - q.mean(0))).sum(-1), mask, n)


def temperature_loss(log_alpha: Tensor, entropy: Tensor, target_entropy: float) -> Tensor:
    """log alpha (entropy - target): alpha falls while the policy is more random than asked."""
    return log_alpha * (entropy - target_entropy).detach()
