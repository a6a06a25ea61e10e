"""Targets and errors of temporal differences."""

from __future__ import annotations

import torch
from torch import Tensor


def masked_mean(x: Tensor, mask: Tensor, n: int) -> Tensor:
    """Mean over the steps that count."""
    return torch.where(mask, x, torch.zeros_like(x)).sum() / n


def next_step(x: Tensor) -> Tensor:
    """x_{t+1} at step t; the last step of a row, never counted, gets zero."""
    return torch.cat([x[:, 1:], torch.zeros_like(x[:, :1])], 1)


def soft_value(q: Tensor, log_prob: Tensor, alpha: Tensor, entropy: bool = True) -> Tensor:
    """min over the heads of Q'(h, a~) - alpha log pi(a~ | h); without `entropy` the first alone.

    RESeL, appendix C, Eq. (target_value, target_value_cont), where the heads are drawn at random;
    SAC (Haarnoja et al. 2018), Eq. (3), where there are two. q is (heads, rows, length[, A]).
    """
    value = q.min(0).values
    return value - alpha * log_prob if entropy else value


def td_target(reward: Tensor, terminated: Tensor, next_value: Tensor, gamma: float) -> Tensor:
    """y = r + gamma (1 - terminated) V; a truncated episode goes on in the value."""
    return reward + gamma * (1 - terminated) * next_value


def lambda_target(
    reward: Tensor,
    terminated: Tensor,
    next_value: Tensor,
    next_q: Tensor,
    trace: Tensor,
    gamma: float,
) -> Tensor:
    """y_t = r_t + gamma (1 - terminated_t) (V_{t+1} + c_t (y_{t+1} - Q_{t+1})) along each row.

    Q is the value of the action that was taken, and the trace c_t says how much of what came after
    it is heeded: 0 gives `td_target`, lambda Harutyunyan et al. 2016, Q(lambda) with Off-Policy
    Corrections. All are (rows, length); c_t must be 0 where an episode does not go on.
    """
    still = gamma * (1 - terminated)
    factor = still * trace
    y = reward + still * next_value - factor * next_q
    # y_t = b_t + f_t y_{t+1}: doubling how far each step has looked ahead.
    ahead, length = 1, y.shape[1]
    while ahead < length:
        y = y + factor * _later(y, ahead)
        factor = factor * _later(factor, ahead)
        ahead *= 2
    return y


def _later(x: Tensor, steps: int) -> Tensor:
    """x_{t + steps} at step t, zero beyond the end."""
    return torch.nn.functional.pad(x[:, steps:], (0, steps))


def lap_loss(q: Tensor, y: Tensor, mask: Tensor, n: int) -> Tensor:
    """Huber loss, here 0.5 d^2 below 1 and |d| from there on, summed over the heads.

    Fujimoto et al. 2020, An Equivalence between Loss Functions and Non-Uniform Sampling in
    Experience Replay: the loss that goes with priorities of max(|d|, 1)^alpha.
    """
    size = (q - y).abs()
    return masked_mean(torch.where(size < 1, 0.5 * size.square(), size).sum(0), mask, n)


def critic_loss(q: Tensor, y: Tensor, mask: Tensor, n: int) -> Tensor:
    """Squared error summed over the heads, averaged over steps.

    RESeL, appendix C, Eq. (redq_critic_loss); of SAC and TD3 with their two critics.
    """
    return masked_mean((q - y).square().sum(0), mask, n)
