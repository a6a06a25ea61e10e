"""The loss of the temperature."""

from __future__ import annotations

from torch import Tensor


def temperature_loss(log_alpha: Tensor, entropy: Tensor, target_entropy: float) -> Tensor:
    """log alpha (entropy - target): alpha falls while the policy is more random than asked."""
    return log_alpha * (entropy - target_entropy).detach()


def temperature_loss_exp(log_alpha: Tensor, entropy: Tensor, target_entropy: float) -> Tensor:
    """alpha (entropy - target), as SAC (Haarnoja et al. 2018), Eq. (18), writes it."""
    return log_alpha.exp() * (entropy - target_entropy).detach()
