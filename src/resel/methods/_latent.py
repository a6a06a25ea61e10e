"""SAC on a context that has a loss of its own: what ESCP, OSI and EPI share.

Luo et al. 2022, Adapt to Environment Sudden Changes by Learning a Context Sensitive Policy
(FanmingL/ESCP). The context encoder belongs to the policy and learns in its step, but by the
method's own loss alone: policy and critics read the context without teaching it. The order of an
update is SAC's.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor

from resel.config import Config
from resel.data import Batch
from resel.methods._recurrent import QUICK_SAC
from resel.methods.base import Metrics
from resel.methods.sac import SACLearner
from resel.networks import (
    ContextInputs,
    CriticNetwork,
    Dimensions,
    LatentCritic,
    LatentPolicy,
    Network,
    StochasticPolicy,
)

_CRITICS = 2
CONTEXT, CRITIC_CONTEXT = "context", "critic_context"
"""Columns of a batch that is being learned from: z_t, and what critics read in its place."""

SMALL: dict[str, Any] = {
    **QUICK_SAC,
    "size": "tiny",
    "alpha_start": 0.2,
    "alpha_max": 1.0,
    "target_entropy_scale": 1.5,
    "warmup_steps": 1000,
}
"""For a training of minutes."""
ESCP_SOURCE = (
    "Luo et al. 2022, Adapt to Environment Sudden Changes by Learning a Context Sensitive Policy "
    "(FanmingL/ESCP)"
)


class LatentLearner(SACLearner):
    """One update of SAC, and of the context by a loss that a method adds."""

    encoder_learns_apart: ClassVar[bool] = True

    @staticmethod
    def networks_of(config: Config, dims: Dimensions) -> dict[str, Network]:
        policy = LatentPolicy(dims, config, None)
        return {"policy": policy, "critic": LatentCritic(dims, config, policy.trunk, _CRITICS)}

    @abstractmethod
    def _context_loss(self, batch: Batch, inputs: ContextInputs) -> Tensor:
        """What the context encoder descends on."""

    def update(self, batch: Batch, *, want_metrics: bool = False) -> Metrics:
        batch = self._with_contexts(batch.to(self.device))
        if not want_metrics:
            return super().update(batch)
        with torch.no_grad():
            loss = self._context_loss(batch, self.inputs(batch)[0])
        metrics = super().update(batch, want_metrics=True)
        if "policy_loss" in metrics:  # of the whole step of the policy, the encoder's included
            metrics["policy_loss"] = metrics["policy_loss"] - loss
        return metrics | {"context_loss": loss}

    def policy_values(self, batch: Batch, inputs: ContextInputs) -> list[Tensor]:
        batch = self._with_contexts(batch)
        return super().policy_values(batch, self.inputs(batch)[0])

    def _with_contexts(self, batch: Batch) -> Batch:
        """The batch with contexts as columns, at once for all that is learned from it."""
        if CONTEXT in batch.extras:
            return batch
        context = self._latent.context(self.inputs(batch)[0], batch.is_first)
        return with_columns(batch, {CONTEXT: context, CRITIC_CONTEXT: context.detach()})

    @property
    def _latent(self) -> LatentPolicy:
        policy = self.policy
        assert isinstance(policy, LatentPolicy)
        return policy

    def _policy_of(self, batch: Batch, inputs: ContextInputs) -> StochasticPolicy:
        policy = self._latent.given(inputs.observation, batch.extras[CONTEXT])
        assert isinstance(policy, StochasticPolicy)
        return policy

    def _embedded(
        self, critic: CriticNetwork, batch: Batch, inputs: ContextInputs, *, counted: bool = False
    ) -> Tensor:
        embedded = LatentCritic.given(inputs.observation, batch.extras[CRITIC_CONTEXT])
        return embedded[:, :-1] if counted else embedded

    def _policy_values(
        self, batch: Batch, inputs: ContextInputs, policy: StochasticPolicy, alpha: Tensor
    ) -> tuple[Tensor, Tensor]:
        loss, entropy = super()._policy_values(batch, inputs, policy, alpha)
        return loss + self._context_loss(batch, inputs), entropy


def with_columns(batch: Batch, columns: dict[str, Tensor]) -> Batch:
    """The batch with further columns."""
    return dataclasses.replace(batch, extras={**batch.extras, **columns})
