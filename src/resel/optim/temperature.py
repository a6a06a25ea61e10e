"""The temperature alpha of maximum-entropy methods: fixed, or steered to a target entropy."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from resel.losses import temperature_loss
from resel.optim.groups import ParameterGroup, build_optimizer

Loss = Callable[[Tensor, Tensor, float], Tensor]


def target_entropy(scale: float | None, action: int, discrete: bool) -> float:
    """The entropy that the temperature steers to."""
    if discrete:
        return (0.2 if scale is None else scale) * math.log(action)
    return -(1.0 if scale is None else scale) * action


_SMALLEST_LOG = math.log(1e-20)
"""A tuned temperature never falls below: values are divided by it."""


class Temperature:
    """Owns log alpha and its optimiser; without one if alpha is fixed."""

    def __init__(
        self,
        alpha: float | None,
        lr: float,
        target_entropy: float,
        device: torch.device,
        dtype: torch.dtype,
        *,
        loss: Loss = temperature_loss,
        weight_decay: float = 0.0,
        largest_log: float | None = None,
        start: float = 1.0,
    ) -> None:
        self.target_entropy, self._loss, self._largest_log = target_entropy, loss, largest_log
        self.optimizer: torch.optim.Optimizer | None = None
        if alpha is not None:
            self.log_alpha = torch.tensor(math.log(max(alpha, 1e-38)), dtype=dtype, device=device)
            return
        self.log_alpha = torch.full((), math.log(start), dtype=dtype, device=device)
        self.log_alpha.requires_grad_()
        alone = ParameterGroup("alpha", {"log_alpha": self.log_alpha}, lr)
        self.optimizer = build_optimizer([alone], weight_decay)

    @property
    def value(self) -> Tensor:
        """alpha now, without gradient."""
        return self.log_alpha.detach().exp()

    def step(self, entropy: Tensor, skipped: Tensor, share: float = 1.0) -> None:
        """Steer the policy's entropy to a share of the target.

        Nothing moves if the policy's own step was left out (`skipped` is then 1, else 0).
        """
        if self.optimizer is None:
            return
        self.optimizer.zero_grad(set_to_none=False)
        self._loss(self.log_alpha, entropy, share * self.target_entropy).backward()  # type: ignore[no-untyped-call]
        self.optimizer.found_inf = skipped  # type: ignore[attr-defined]
        self.optimizer.step()
        with torch.no_grad():
            self.log_alpha.clamp_(_SMALLEST_LOG, self._largest_log)
