"""TD3: a deterministic policy, the smaller of two critics, targets smoothed by noise.

Fujimoto et al. 2018, Addressing Function Approximation Error in Actor-Critic Methods, Algorithm 1.
The order of an update is: target, critics, and at every `policy_delay`th update policy and the soft
update of both targets.

`TD3Learner` takes its networks from the config, so methods that differ in the networks, or learn
from windows instead of single steps, share it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from resel import losses
from resel.config import Config, Count, at_least, between, one_of, positive
from resel.data import Batch, Sampler
from resel.methods._off_policy import presets, sampler_of
from resel.methods.base import Learner, Metrics
from resel.methods.registry import Method
from resel.networks import (
    ContextInputs,
    Deterministic,
    Dimensions,
    Network,
    PlainNetwork,
)

_CRITICS = 2
PolicyLoss = Literal["q1", "min"]


@dataclass(frozen=True)
class SmoothedSettings:
    """The settings of methods with a deterministic policy and targets smoothed by noise."""

    lr_policy: float = 3e-4
    """Learning rate of the policy."""
    lr_critic: float = 3e-4
    """Learning rate of the critics."""
    gamma: float = 0.99
    """Discount."""
    exploration_noise: float = 0.1
    """Standard deviation of the noise on actions while exploring, in the range [-1, 1]."""
    target_noise: float = 0.2
    """Standard deviation of the noise on the next action in the target."""
    target_noise_clip: float = 0.5
    """That noise is cut off here."""
    policy_delay: Count = 2
    """Critic updates per update of the policy."""
    reward_scale: float = 1.0
    """Rewards are multiplied by this in the targets; reported returns are not."""
    normalize_rewards: bool = False
    """Also divide them by the running deviation of discounted returns."""
    normalize_observations: bool = False
    """Scale observations by their running mean and deviation, saved with the agent."""

    def __post_init__(self) -> None:
        positive(self, "lr_policy", "lr_critic", "reward_scale")
        between(self, 0.0, 1.0, "gamma")
        between(self, 0.0, 10.0, "exploration_noise", "target_noise", "target_noise_clip")
        at_least(self, 1, "policy_delay")


@dataclass(frozen=True)
class DeterministicSettings(SmoothedSettings):
    """The settings of TD3 and its kin, but for how they draw a batch."""

    tau: float = 0.005
    """Share of policy and critic that their targets take over at each soft update."""
    policy_delay: Count = 2
    """Critic updates per update of the policy and of both targets."""
    policy_loss: PolicyLoss = "q1"
    """What the policy climbs: the first critic, or the smaller of both."""

    def __post_init__(self) -> None:
        super().__post_init__()
        between(self, 0.0, 1.0, "tau")
        one_of(self, "policy_loss", PolicyLoss)


@dataclass(frozen=True)
class TD3Settings(DeterministicSettings):
    """The hyperparameters of TD3."""

    batch_transitions: Count = 256
    """Single steps in a batch, drawn uniformly."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "batch_transitions")


class TD3Learner(Learner):
    """One update of TD3."""

    follows: ClassVar[tuple[str, ...]] = ("policy", "critic")
    settings: DeterministicSettings

    @staticmethod
    def networks_of(config: Config, dims: Dimensions) -> dict[str, Network]:
        return {
            "policy": config.network.policy(config, dims, deterministic=True),
            "critic": config.network.critic(config, dims, _CRITICS),
        }

    @property
    def sampler(self) -> Sampler:
        return sampler_of(self.settings)

    def update(self, batch: Batch, *, want_metrics: bool = False) -> Metrics:
        settings, n = self.settings, batch.steps
        batch = batch.to(self.device)
        inputs, action = self.inputs(batch)
        mask = batch.mask[:, :-1]  # the last step of a row never counts
        metrics: Metrics = {}

        with torch.no_grad():
            y = self._target(batch, inputs)
        embedded = self._embedded(self.critic, batch, inputs, counted=True)
        q = self.critic.values_of(embedded, action[:, :-1])
        critic_loss = losses.critic_loss(q, y, mask, n)
        self.step("critic", [critic_loss], metrics if want_metrics else None)

        if self.learns_policy:
            values = self.policy_values(batch, inputs)
            self.step("policy", values, metrics if want_metrics else None)
            self.follow(settings.tau)
            if want_metrics:
                metrics["policy_loss"] = values[0].detach()
        if want_metrics:
            metrics |= {
                "critic_loss": critic_loss.detach(),
                "q_mean": losses.masked_mean(q.detach().mean(0), mask, n),
                "target_mean": losses.masked_mean(y, mask, n),
            }
        self.updates += 1
        return metrics

    @property
    def learns_policy(self) -> bool:
        """Whether the coming update is one of the policy too."""
        return (self.updates + 1) % self.settings.policy_delay == 0

    def _target(self, batch: Batch, inputs: ContextInputs) -> Tensor:
        """y (rows, length - 1), from the targets of policy and critics one step further."""
        settings = self.settings
        policy: Deterministic = self.targets["policy"](inputs, batch.is_first)
        noise = settings.target_noise, settings.target_noise_clip
        action = policy.smoothed(*noise, self.generators["noise"])
        embedded = self._embedded(self.target_critic, batch, inputs)
        q = self.target_critic.values(embedded, action).min(0).values
        reward = self.rewards(batch)[:, :-1]
        return losses.td_target(reward, batch.terminated[:, :-1], q[:, 1:], settings.gamma)

    def policy_values(self, batch: Batch, inputs: ContextInputs) -> list[Tensor]:
        with torch.no_grad():
            embedded = self._embedded(self.critic, batch, inputs, counted=True)
        action = self.policy(inputs, batch.is_first).mode()[:, :-1]
        first = self.settings.policy_loss == "q1"
        heads = torch.zeros(1, dtype=torch.long, device=self.device) if first else None
        q = self.critic.values(embedded, action, heads, frozen=True).min(0).values
        return [-losses.masked_mean(q, batch.mask[:, :-1], batch.steps)]


SMALL: dict[str, Any] = {
    "size": "tiny",
    "lr_policy": 1e-3,
    "lr_critic": 3e-3,
    "tau": 0.01,
    "batch_transitions": 256,
    "warmup_steps": 1000,
}

METHOD = Method(
    name="td3",
    title="TD3",
    summary="A deterministic policy with two critics, one step at a time: no memory",
    source="Fujimoto et al. 2018, Addressing Function Approximation Error in Actor-Critic Methods "
    "(sfujim/TD3)",
    learner=TD3Learner,
    settings=TD3Settings,
    network=PlainNetwork,
    encoder=None,
    preset=presets({"warmup_steps": 25_000}, SMALL),
    spaces=("Box",),
    figures=("table-mdp",),
)
