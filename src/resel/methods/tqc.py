"""TQC: SAC whose critics give distributions, the largest quantiles of which the target leaves out.

Kuznetsov et al. 2020, Controlling Overestimation Bias with Truncated Mixture of Continuous
Distributional Quantile Critics, Algorithm 1. The order of an update is: target, critics, soft
target update, policy, temperature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from resel import losses
from resel.config import Config, Count, at_least, scaled
from resel.data import Batch, PerStep, Sampler, Schedule
from resel.errors import ConfigError
from resel.methods._off_policy import (
    SoftSettings,
    embed_counted,
    presets,
    sampler_of,
    temperature_of,
)
from resel.methods.base import Learner, Metrics
from resel.methods.registry import Method
from resel.networks import ContextInputs, Dimensions, Network, PlainNetwork, StochasticPolicy
from resel.optim import Temperature


@dataclass(frozen=True)
class TQCSettings(SoftSettings):
    """The hyperparameters of TQC."""

    batch_transitions: Count = 256
    """Single steps in a batch, drawn uniformly."""
    n_critics: Count = 5
    """Critics."""
    quantiles: Count = 25
    """Quantiles of each critic."""
    dropped_quantiles: Count = 2
    """How many of these, counted for each critic, the target leaves out at the top."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "batch_transitions", "n_critics", "quantiles")
        at_least(self, 0, "dropped_quantiles")
        if self.dropped_quantiles >= self.quantiles:
            raise ConfigError(
                f"dropped_quantiles={self.dropped_quantiles} leaves none of "
                f"quantiles={self.quantiles}: lower it."
            )


@dataclass(frozen=True)
class TQCNetwork(PlainNetwork):
    """Sizes of policy and critics, the latter larger."""

    critic_width: Count | None = scaled(512)
    """Width of the critic's hidden layers; None takes the policy's sizes."""
    critic_layers: Count | None = 3
    """Hidden layers of the critic; None takes the policy's."""


class TQCLearner(Learner):
    """One update of TQC."""

    settings: TQCSettings

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.temperature: Temperature = temperature_of(
            self.settings, self.dims, self.device, self.dtype
        )

    @staticmethod
    def networks_of(config: Config, dims: Dimensions) -> dict[str, Network]:
        settings: TQCSettings = config.algorithm
        return {
            "policy": config.network.policy(config, dims, deterministic=False),
            "critic": config.network.critic(config, dims, settings.n_critics, settings.quantiles),
        }

    @property
    def sampler(self) -> Sampler:
        return sampler_of(self.settings)

    @property
    def schedule(self) -> Schedule:
        return PerStep(self.config.training.updates_per_step, after=self.settings.learn_after)

    def update(self, batch: Batch, *, want_metrics: bool = False) -> Metrics:
        settings, n = self.settings, batch.steps
        batch = batch.to(self.device)
        inputs, action = self.inputs(batch)
        mask = batch.mask[:, :-1]  # the last step of a row never counts
        alpha = self.temperature.value
        learns_policy = self.updates % settings.policy_delay == 0
        metrics: Metrics = {}

        with torch.set_grad_enabled(learns_policy):  # runs once for target and policy loss
            policy = self.policy(inputs, batch.is_first)

        with torch.no_grad():
            y = self._target(batch, inputs, policy.detach(), alpha)  # (rows, length - 1, K)
        z = self.critic.values_of(
            embed_counted(self.critic, inputs, batch.is_first), action[:, :-1]
        )
        critic_loss = losses.quantile_huber_loss(z, y, mask, n)
        self.step("critic", [critic_loss], metrics if want_metrics else None)
        self.follow(settings.tau)

        if learns_policy:
            policy_loss, entropy = self._policy_values(batch, inputs, policy, alpha)
            # The temperature learns from the entropy alone, so it is finite if the policy's are.
            skipped = self.step("policy", [policy_loss, entropy], metrics if want_metrics else None)
            self.temperature.step(entropy, skipped)
            if want_metrics:
                metrics |= {"policy_loss": policy_loss.detach(), "entropy": entropy.detach()}
        if want_metrics:
            metrics |= {
                "critic_loss": critic_loss.detach(),
                "q_mean": losses.masked_mean(z.detach().mean((0, 3)), mask, n),
                "target_mean": losses.masked_mean(y.mean(-1), mask, n),
                "alpha": alpha,
            }
        self.updates += 1
        return metrics

    def policy_values(self, batch: Batch, inputs: ContextInputs) -> list[Tensor]:
        policy = self.policy(inputs, batch.is_first)
        return list(self._policy_values(batch, inputs, policy, self.temperature.value))

    def _target(
        self, batch: Batch, inputs: ContextInputs, policy: StochasticPolicy, alpha: Tensor
    ) -> Tensor:
        """The kept target quantiles (rows, length - 1, K), from one step further."""
        settings = self.settings
        draw = policy.draw(self.generators["noise"])
        embedded = self.target_critic.embed(inputs, batch.is_first)
        z = self.target_critic.values(embedded, draw.action)  # (E, rows, length, M)
        return losses.quantile_target(
            self.rewards(batch)[:, :-1],
            batch.terminated[:, :-1],
            losses.truncated_quantiles(z[:, :, 1:], settings.dropped_quantiles),
            draw.log_prob[:, 1:],
            alpha if settings.critic_entropy else torch.zeros_like(alpha),
            settings.gamma,
        )

    def _policy_values(
        self, batch: Batch, inputs: ContextInputs, policy: StochasticPolicy, alpha: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The loss, with the mean of all quantiles of all critics, and the policy's entropy."""
        with torch.no_grad():
            embedded = embed_counted(self.critic, inputs, batch.is_first)
        draw = policy.draw(self.generators["noise"]).before_last()
        mask, n = batch.mask[:, :-1], batch.steps
        q = self.critic.values(embedded, draw.action, frozen=True).mean((0, 3))
        term = losses.soft_policy_term(q, draw.log_prob, alpha)
        entropy = -losses.masked_mean(draw.log_prob, mask, n)
        return losses.masked_mean(term, mask, n), entropy


_SMALL: dict[str, Any] = {
    "size": "tiny",
    "lr_policy": 1e-3,
    "lr_critic": 1e-3,
    "lr_alpha": 3e-3,
    "tau": 0.01,
    "batch_transitions": 64,
    "n_critics": 2,
    "critic_layers": 2,
    "warmup_steps": 1000,
}

METHOD = Method(
    name="tqc",
    title="TQC",
    summary="SAC with distributional critics, the largest quantiles left out; no memory",
    source="Kuznetsov et al. 2020, Controlling Overestimation Bias with Truncated Mixture of "
    "Continuous Distributional Quantile Critics (SamsungLabs/tqc_pytorch)",
    learner=TQCLearner,
    settings=TQCSettings,
    network=TQCNetwork,
    encoder=None,
    preset=presets(
        {"warmup_steps": 0, "learn_after": 256},
        _SMALL,
        tasks={
            "Hopper-v2": {"dropped_quantiles": 5},
            "HalfCheetah-v2": {"dropped_quantiles": 0},
        },
    ),
    spaces=("Box",),
    figures=("table-mdp",),
)
