"""SAC: maximum-entropy learning with the smaller of two critics.

Haarnoja et al. 2018, Soft Actor-Critic Algorithms and Applications, Algorithm 1; for Discrete
actions Christodoulou 2019, where expectations over the policy are exact. The order of an update is:
target, critics, soft target update, policy, temperature.

`SACLearner` takes its networks from the config, so methods that differ in the networks, or learn
from windows instead of single steps, share it, as do those with other critics; their settings
extend `SoftSettings`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from resel import losses
from resel.config import Config, Count, at_least
from resel.data import Batch, PerStep, Sampler, Schedule
from resel.methods._off_policy import (
    SoftSettings,
    presets,
    sampler_of,
    temperature_of,
)
from resel.methods.base import Learner, Metrics
from resel.methods.registry import Method
from resel.networks import (
    ContextInputs,
    Dimensions,
    Network,
    PlainNetwork,
    StochasticPolicy,
)
from resel.optim import Temperature

_CRITICS = 2


@dataclass(frozen=True)
class SACSettings(SoftSettings):
    """The hyperparameters of SAC."""

    batch_transitions: Count = 256
    """Single steps in a batch, drawn uniformly."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "batch_transitions")


class SACLearner(Learner):
    """One update of SAC."""

    settings: SoftSettings

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.temperature: Temperature = temperature_of(
            self.settings, self.dims, self.device, self.dtype
        )

    @staticmethod
    def networks_of(config: Config, dims: Dimensions) -> dict[str, Network]:
        return {
            "policy": config.network.policy(config, dims, deterministic=False),
            "critic": config.network.critic(config, dims, _CRITICS),
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
            policy = self._policy_of(batch, inputs)

        with torch.no_grad():
            y = self._target(batch, inputs, policy.detach(), alpha)
        embedded = self._embedded(self.critic, batch, inputs, counted=True)
        q = self.critic.values_of(embedded, action[:, :-1])
        critic_loss = self._critic_loss(q, y, mask, n)
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
            q_mean, target_mean = self._means(q.detach(), y)
            metrics |= {
                "critic_loss": critic_loss.detach(),
                "q_mean": losses.masked_mean(q_mean, mask, n),
                "target_mean": losses.masked_mean(target_mean, mask, n),
                "alpha": alpha,
            }
        self.updates += 1
        return metrics

    def policy_values(self, batch: Batch, inputs: ContextInputs) -> list[Tensor]:
        policy = self._policy_of(batch, inputs)
        return list(self._policy_values(batch, inputs, policy, self.temperature.value))

    def _policy_of(self, batch: Batch, inputs: ContextInputs) -> StochasticPolicy:
        """What the policy would do at every step."""
        policy: StochasticPolicy = self.policy(inputs, batch.is_first)
        return policy

    def _target(
        self, batch: Batch, inputs: ContextInputs, policy: StochasticPolicy, alpha: Tensor
    ) -> Tensor:
        """y (rows, length - 1), from the target critics one step further."""
        settings = self.settings
        draw = policy.draw(self.generators["noise"])
        embedded = self._embedded(self.target_critic, batch, inputs)
        q = self.target_critic.values(embedded, draw.action)
        soft = losses.soft_value(q, draw.log_prob, alpha, settings.critic_entropy)
        value = draw.expect(soft)
        reward = self.rewards(batch)[:, :-1]
        return losses.td_target(reward, batch.terminated[:, :-1], value[:, 1:], settings.gamma)

    @staticmethod
    def _critic_loss(q: Tensor, y: Tensor, mask: Tensor, n: int) -> Tensor:
        return losses.critic_loss(q, y, mask, n)

    @staticmethod
    def _judgement(q: Tensor) -> Tensor:
        """What the policy climbs, from what all critics say."""
        return q.min(0).values

    @staticmethod
    def _means(q: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """One number a step of values and targets, to be logged."""
        return q.mean(0), y

    def _policy_values(
        self, batch: Batch, inputs: ContextInputs, policy: StochasticPolicy, alpha: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The loss and the policy's entropy (for Box actions, estimated from the sample)."""
        with torch.no_grad():
            embedded = self._embedded(self.critic, batch, inputs, counted=True)
        draw = policy.draw(self.generators["noise"]).before_last()
        mask, n = batch.mask[:, :-1], batch.steps
        q = self._judgement(self.critic.values(embedded, draw.action, frozen=True))
        term = draw.expect(losses.soft_policy_term(q, draw.log_prob, alpha))
        entropy = -losses.masked_mean(draw.expect(draw.log_prob), mask, n)
        return losses.masked_mean(term, mask, n), entropy


SMALL: dict[str, Any] = {
    "size": "tiny",
    "lr_policy": 1e-3,
    "lr_critic": 3e-3,
    "lr_alpha": 3e-3,
    "tau": 0.01,
    "batch_transitions": 256,
    "warmup_steps": 1000,
}

METHOD = Method(
    name="sac",
    title="SAC",
    summary="Maximum entropy, two critics, one step at a time: no memory",
    source="Haarnoja et al. 2018, Soft Actor-Critic Algorithms and Applications",
    learner=SACLearner,
    settings=SACSettings,
    network=PlainNetwork,
    encoder=None,
    preset=presets({"warmup_steps": 25_000}, SMALL),
    figures=("table-mdp",),
)
