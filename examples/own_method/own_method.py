"""A method of one's own: SAC whose critics are believed less the more they disagree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from resel import Config, Learner, Method, losses
from resel.config import Count, at_least, between, positive
from resel.data import Batch, Sampler, Trajectories
from resel.methods import EncoderRate, Metrics
from resel.networks import (
    ContextCritic,
    ContextInputs,
    ContextNetwork,
    ContextPolicy,
    Dimensions,
    Network,
)


@dataclass(frozen=True)
class CautiousSettings(EncoderRate):
    """Each is a flag of `resel train`, and the text below it is what --help says of it."""

    lr_context_encoder: float | Literal["auto"] | None = 1e-5
    """Learning rate of the context encoders; None takes that of the layers around them."""
    lr_policy: float = 3e-4
    """Learning rate of everything else in the policy."""
    lr_critic: float = 1e-3
    """Learning rate of everything else in the critics."""
    batch_steps: Count = 1000
    """Whole trajectories are drawn until a batch holds at least this many steps."""
    gamma: float = 0.99
    """Discount."""
    tau: float = 0.005
    """Share of the critics that their targets take over at each update."""
    alpha: float = 0.05
    """Temperature: what a nat of entropy is worth."""
    caution: float = 1.0
    """How many standard deviations between the critics are taken off their mean."""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "lr_policy", "lr_critic", "alpha")
        at_least(self, 1, "batch_steps")
        between(self, 0.0, 1.0, "gamma", "tau")
        between(self, 0.0, 10.0, "caution")


class CautiousLearner(Learner):
    """Target, critics, target critics, policy."""

    settings: CautiousSettings

    @staticmethod
    def networks_of(config: Config, dims: Dimensions) -> dict[str, Network]:
        return {"policy": ContextPolicy(dims, config), "critic": ContextCritic(dims, config, 4)}

    @property
    def sampler(self) -> Sampler:
        return Trajectories(self.settings.batch_steps)

    def believed(self, q: Tensor) -> Tensor:
        """(critics, rows, length[, actions]) -> (rows, length[, actions])"""
        spread = q.var(0).add(1e-6).sqrt()  # never 0, where a root has no gradient
        return q.mean(0) - self.settings.caution * spread

    def update(self, batch: Batch, *, want_metrics: bool = False) -> Metrics:
        settings, metrics, batch = self.settings, Metrics(), batch.to(self.device)
        inputs, action = self.inputs(batch)
        with torch.no_grad():
            y = self.target(batch, inputs)
        q = self.critic.values_of(self.critic.embed(inputs, batch.is_first), action)
        critic_loss = losses.critic_loss(q, y, batch.mask, batch.steps)
        self.step("critic", [critic_loss], metrics if want_metrics else None)
        self.follow(settings.tau)
        (policy_loss,) = self.policy_values(batch, inputs)
        self.step("policy", [policy_loss], metrics if want_metrics else None)
        self.updates += 1
        losses_now = {"critic_loss": critic_loss.detach(), "policy_loss": policy_loss.detach()}
        return metrics | losses_now if want_metrics else metrics

    def target(self, batch: Batch, inputs: ContextInputs) -> Tensor:
        """r + gamma V of the next step, where the episode does not end."""
        draw = self.policy(inputs, batch.is_first).draw(self.generators["noise"])
        embedded = self.target_critic.embed(inputs, batch.is_first)
        q = self.believed(self.target_critic.values(embedded, draw.action))
        value = draw.expect(q - self.settings.alpha * draw.log_prob)
        next_value = losses.next_step(value)
        return losses.td_target(batch.reward, batch.terminated, next_value, self.settings.gamma)

    def policy_values(self, batch: Batch, inputs: ContextInputs) -> list[Tensor]:
        draw = self.policy(inputs, batch.is_first).draw(self.generators["noise"])
        with torch.no_grad():
            embedded = self.critic.embed(inputs, batch.is_first)
        q = self.believed(self.critic.values(embedded, draw.action, frozen=True))
        term = draw.expect(self.settings.alpha * draw.log_prob - q)
        return [losses.masked_mean(term, batch.mask, batch.steps)]


def preset(task: Any, name: str) -> Mapping[str, Any] | None:
    """The settings of one's own for a task (None: not one of resel's); {} leaves the defaults."""
    return {} if name in ("paper", "small") else None


METHOD = Method(
    name="own-cautious",
    title="Cautious SAC",
    summary="SAC whose critics are believed less the more they disagree",
    source="this example",
    learner=CautiousLearner,
    settings=CautiousSettings,
    network=ContextNetwork,
    encoder="gru",
    preset=preset,
)
