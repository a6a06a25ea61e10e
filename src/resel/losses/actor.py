"""What a policy descends on, at every step."""

from __future__ import annotations

import torch
from torch import Tensor


def soft_policy_term(q: Tensor, log_prob: Tensor, alpha: Tensor) -> Tensor:
    """alpha log pi - Q, with Q already reduced over the heads: their mean in RESeL
    (appendix C, Eq. redq_actor_loss), their minimum in SAC."""
    return alpha * log_prob - q


def forward_policy_term(q: Tensor, log_prob: Tensor, alpha: Tensor) -> Tensor:
    """Cross-entropy of the policy with softmax(Q / alpha), which both KL divergences lead to.

    The forward direction (Chan et al. 2022, Greedification Operators for Policy Optimization). Its
    gradient by a logit is the difference of two probabilities, so that an action can come back that
    the policy has given up; that of the expectation above vanishes with the action's probability.
    q and log_prob are (..., A).
    """
    return -(torch.softmax(q.detach() / alpha, -1) * log_prob).sum(-1)
