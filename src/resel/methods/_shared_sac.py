"""SAC on one context encoder for policy and critics, all learned from one loss.

Ni et al. 2023, When Do Transformers Shine in RL? Decoupling Memory from Credit Assignment. An
update is one pass of the encoder over whole episodes, the target from that pass and slow copies of
the critics' heads, and one step of everything on

    0.5 (L_Q1 + L_Q2) + L_policy

where the critics are frozen in the policy's loss, and the context they read there is taken as it
is. So the encoder learns from the critics' errors and from the policy's own way to its actions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from resel import losses
from resel.config import Config, Count, at_least
from resel.data import Batch, Episodes, Sampler
from resel.errors import ConfigError
from resel.methods._encoder_rate import EncoderRate
from resel.methods._off_policy import SoftSettings
from resel.methods.base import Metrics
from resel.methods.sac import SACLearner
from resel.networks import (
    ContextInputs,
    Dimensions,
    Network,
    SharedCritic,
    SharedPolicy,
    StochasticPolicy,
)

_CRITICS = 2


@dataclass(frozen=True)
class SharedSACSettings(EncoderRate, SoftSettings):
    """The hyperparameters of SAC on one encoder."""

    lr_policy: float = 3e-4
    """Learning rate of the policy, and of the encoder that it shares with the critics."""
    lr_critic: float = 3e-4
    """Learning rate of the critics' heads."""
    alpha: float | None = 0.1
    """Keep the temperature at this value; None tunes it to the target entropy."""
    batch_episodes: Count = 64
    """Whole episodes in a batch, or all there are."""

    def __post_init__(self) -> None:
        SoftSettings.__post_init__(self)
        EncoderRate.__post_init__(self)
        at_least(self, 1, "batch_episodes")
        if self.policy_delay != 1:
            raise ConfigError(
                f"policy_delay={self.policy_delay}: policy and critics learn from one loss here, "
                "so the policy cannot wait. Leave it at 1."
            )


class SharedSACLearner(SACLearner):
    """One update of everything."""

    settings: SharedSACSettings

    @staticmethod
    def networks_of(config: Config, dims: Dimensions) -> dict[str, Network]:
        policy = SharedPolicy(dims, config)
        return {"policy": policy, "critic": SharedCritic(dims, config, policy, _CRITICS)}

    @property
    def sampler(self) -> Sampler:
        return Episodes(self.settings.batch_episodes)

    @property
    def policy(self) -> SharedPolicy:
        policy = self.networks["policy"]
        assert isinstance(policy, SharedPolicy)
        return policy

    def update(self, batch: Batch, *, want_metrics: bool = False) -> Metrics:
        settings, n = self.settings, batch.steps
        batch = batch.to(self.device)
        inputs, action = self.inputs(batch)
        mask = batch.mask[:, :-1]  # the last step of a row never counts
        alpha = self.temperature.value
        metrics: Metrics = {}

        context = self.policy.context(inputs, batch.is_first)
        policy = self.policy.at(context)
        with torch.no_grad():
            y = self._target_at(batch, context, policy.detach(), alpha)
        q = self.critic.values_of(context[:, :-1], action[:, :-1])
        critic_loss = 0.5 * losses.critic_loss(q, y, mask, n)
        policy_loss, entropy = self._values_at(batch, context, policy, alpha)
        values = [critic_loss + policy_loss, entropy]
        skipped = self.joint_step(("policy", "critic"), values, metrics if want_metrics else None)
        self.follow(settings.tau)
        self.temperature.step(entropy, skipped)
        if want_metrics:
            metrics |= {
                "critic_loss": critic_loss.detach(),
                "policy_loss": policy_loss.detach(),
                "entropy": entropy.detach(),
                "q_mean": losses.masked_mean(q.detach().mean(0), mask, n),
                "target_mean": losses.masked_mean(y, mask, n),
                "alpha": alpha,
            }
        self.updates += 1
        return metrics

    def policy_values(self, batch: Batch, inputs: ContextInputs) -> list[Tensor]:
        context = self.policy.context(inputs, batch.is_first)
        policy = self.policy.at(context)
        return list(self._values_at(batch, context, policy, self.temperature.value))

    def _target_at(
        self, batch: Batch, context: Tensor, policy: StochasticPolicy, alpha: Tensor
    ) -> Tensor:
        """y (rows, length - 1), from the target heads one step further."""
        settings = self.settings
        draw = policy.draw(self.generators["noise"])
        q = self.target_critic.values(context, draw.action)
        value = draw.expect(losses.soft_value(q, draw.log_prob, alpha, settings.critic_entropy))
        reward = self.rewards(batch)[:, :-1]
        return losses.td_target(reward, batch.terminated[:, :-1], value[:, 1:], settings.gamma)

    def _values_at(
        self, batch: Batch, context: Tensor, policy: StochasticPolicy, alpha: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The policy's loss and its entropy."""
        draw = policy.draw(self.generators["noise"]).before_last()
        mask, n = batch.mask[:, :-1], batch.steps
        q = self.critic.values(context[:, :-1].detach(), draw.action, frozen=True).min(0).values
        term = draw.expect(losses.soft_policy_term(q, draw.log_prob, alpha))
        entropy = -losses.masked_mean(draw.expect(draw.log_prob), mask, n)
        return losses.masked_mean(term, mask, n), entropy


def by_task(**by_length: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Settings by task: ten episodes of random actions in Key-to-Door, and what else differs by its
    length."""
    in_the_maze = {
        # The rewards of an episode sum to 1: the source's 0.1 keeps the policy close to random.
        "TMaze-v0": {"alpha": 0.01}
    }
    return in_the_maze | {
        f"KeyToDoor-{length}-v0": {
            "warmup_steps": 10 * (length + 25),
            **by_length.get(f"at_{length}", {}),
        }
        for length in (60, 120, 250, 500)
    }


PAPER: dict[str, Any] = {"updates_per_step": 0.25, "warmup_steps": 10_000}
"""What Ni et al. set besides the defaults; their warm-up is ten episodes."""
SMALL: dict[str, Any] = {
    **PAPER,
    "size": "tiny",
    "batch_episodes": 8,
    "lr_policy": 1e-3,
    "lr_critic": 1e-3,
    "tau": 0.01,
    "warmup_steps": 1000,
    "updates_per_step": 1.0,
}
"""For a training of minutes."""
SOURCE = (
    "Ni et al. 2023, When Do Transformers Shine in RL? Decoupling Memory from Credit Assignment "
    "(twni2016/Memory-RL)"
)
