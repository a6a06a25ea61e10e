"""What a policy descends on, at every step."""

from __future__ import annotations

from torch import Tensor


def soft_policy_term(q: Tensor, log_prob: Tensor, alpha: Tensor) -> Tensor:
    """alpha log pi - Q, with Q already reduced over the heads: their mean in RESeL
    (appendix C, Eq. redq_actor_loss), their minimum in SAC."""
    return alpha * log_prob - q
