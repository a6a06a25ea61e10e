"""VRM: SAC on the memories of two variational recurrent models.

Han, Doya and Tani 2020, Variational Recurrent Models for Solving Partially Observable Control
Tasks, as run by Ni et al. 2022. The first model learns alone, before anything else, and then
stays as it is; the other one keeps learning. SAC is that of 2018 with a value network: the order of
an update is: at every `model_every`th one the model, then value, critics, policy, temperature, and
the value's target. No loss of SAC reaches a model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from resel import losses
from resel.config import Config, Count, at_least, between, positive
from resel.data import Batch, PerStep, Pretrained, Sampler, Schedule, Windows
from resel.methods._off_policy import SoftSettings, presets, temperature_of
from resel.methods.base import Learner, Metrics
from resel.methods.registry import Method
from resel.networks import (
    ContextInputs,
    Dimensions,
    Memories,
    Network,
    SequenceModel,
    SquashedGaussian,
    VRMCritic,
    VRMNetwork,
    VRMPolicy,
    VRMValue,
)
from resel.optim import Temperature
from resel.randomness import torch_stream

_CRITICS = 2


@dataclass(frozen=True)
class VRMSettings(SoftSettings):
    """The hyperparameters of VRM."""

    lr_value: float = 3e-4
    """Learning rate of the value network."""
    lr_first_model: float = 8e-4
    """Learning rate of the model that learns first."""
    lr_model: float = 8e-4
    """Learning rate of the model that keeps learning."""
    tau: float = 0.005
    """Share of the value network that its target takes over at each update."""
    batch_windows: Count = 4
    """Windows in a batch, drawn uniformly over all steps at which one can begin."""
    context_length: Count = 64
    """Steps of a window."""
    burn_in: Count = 64
    """Steps before a window, as far as there are any, that fill the memories and do not count."""
    pretraining_updates: Count = 0
    """Updates of the first model alone before anything else learns; it then stays as it is. 0 lets
    it learn as the other one does."""
    model_every: Count = 5
    """Updates per update of the model that keeps learning."""
    action_penalty: float = 1e-3
    """Weight of the squares of mean and deviation of actions, before tanh, in the policy's loss,
    half of which is taken."""
    reward_scale: float = 1.0
    """Rewards are multiplied by this in the targets, and where models read and foretell them;
    reported returns are not."""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "lr_value", "lr_first_model", "lr_model")
        at_least(self, 1, "batch_windows", "context_length", "model_every")
        at_least(self, 0, "burn_in", "pretraining_updates")
        between(self, 0.0, 1.0, "action_penalty")


class VRMLearner(Learner):
    """One update of a model, of SAC, or of both."""

    follows: ClassVar[tuple[str, ...]] = ("value",)
    acts_with: ClassVar[tuple[str, ...]] = ("policy", "first_model", "model")
    settings: VRMSettings

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.temperature: Temperature = temperature_of(
            self.settings, self.dims, self.device, self.dtype
        )
        self.generators["model"] = torch_stream(self.seed, "model-noise", self.device)

    @staticmethod
    def networks_of(config: Config, dims: Dimensions) -> dict[str, Network]:
        sizes: VRMNetwork = config.network
        models = [sizes.model(config, dims) for _ in range(2)]
        memories = Memories(models, dims)
        return {
            "first_model": models[0],
            "model": models[1],
            "policy": VRMPolicy(dims, sizes, memories),
            "value": VRMValue(sizes, memories),
            "critic": VRMCritic(dims, config, memories, _CRITICS),
        }

    @property
    def policy(self) -> VRMPolicy:
        policy = self.networks["policy"]
        assert isinstance(policy, VRMPolicy)
        return policy

    @property
    def sampler(self) -> Sampler:
        settings = self.settings
        return Windows(settings.batch_windows, settings.context_length, settings.burn_in)

    @property
    def schedule(self) -> Schedule:
        settings = self.settings
        then = PerStep(self.config.training.updates_per_step, after=settings.learn_after)
        return Pretrained(
            settings.pretraining_updates, lambda: self.updates, then, after=settings.learn_after
        )

    @property
    def updates_to_log(self) -> int:
        return math.lcm(self.settings.model_every, self.settings.policy_delay)

    def update(self, batch: Batch, *, want_metrics: bool = False) -> Metrics:
        settings, metrics = self.settings, Metrics()
        batch = batch.to(self.device)
        inputs, action = self.inputs(batch)
        number = self.updates - settings.pretraining_updates
        if number < 0:
            self._learn_model("first_model", batch, inputs, metrics, want_metrics)
        else:
            if number % settings.model_every == 0:
                self._learn_model("model", batch, inputs, metrics, want_metrics)
                if not settings.pretraining_updates:
                    self._learn_model("first_model", batch, inputs, metrics, want_metrics)
            learns_policy = number % settings.policy_delay == 0
            self._learn(batch, inputs, action, learns_policy, metrics, want_metrics)
        self.updates += 1
        return metrics

    def _learn_model(
        self, name: str, batch: Batch, inputs: ContextInputs, metrics: Metrics, wanted: bool
    ) -> None:
        """Descend on the negative evidence lower bound of what follows the steps that count."""
        model = self.networks[name]
        assert isinstance(model, SequenceModel)
        mask, n = batch.mask[:, :-1], batch.steps
        found = model.foretell(inputs, batch.is_first, batch.mask, self.generators["model"])
        posterior, prior = found.posterior, found.prior
        kl = losses.gaussian_kl(posterior.mean, posterior.std.log(), prior.mean, prior.std.log())
        kl = kl[:, 1:] / prior.mean.shape[-1]  # a mean over entries, as the likelihood is
        likelihood = losses.gaussian_log_likelihood(found.seen, *found.expected)[:, 1:]
        loss = losses.masked_mean(kl - likelihood, mask, n)
        self.step(name, [loss], metrics if wanted else None)
        if wanted:
            error = (found.expected.mean - found.seen).detach().square().mean(-1)[:, 1:]
            metrics |= {
                f"{name}_loss": loss.detach(),
                f"{name}_kl": losses.masked_mean(kl.detach(), mask, n),
                f"{name}_error": losses.masked_mean(error, mask, n),
            }

    def _learn(
        self,
        batch: Batch,
        inputs: ContextInputs,
        action: Tensor,
        learns_policy: bool,
        metrics: Metrics,
        wanted: bool,
    ) -> None:
        """Value, critics, policy and temperature."""
        settings, n = self.settings, batch.steps
        mask = batch.mask[:, :-1]  # the last step of a row never counts
        norms = metrics if wanted else None
        alpha = self.temperature.value
        s = self.policy.context(inputs, batch.is_first)
        now = s[:, :-1]
        with torch.set_grad_enabled(learns_policy):  # runs once for the value and the policy
            policy = self.policy.at(now)

        with torch.no_grad():
            draw = policy.detach().draw(self.generators["noise"])
            q = self.critic.values(now, draw.action)
            wanted_value = losses.soft_value(q, draw.log_prob, alpha, settings.critic_entropy)
            y = self._target(batch, s)
        value = self.networks["value"](now)
        value_loss = 0.5 * losses.masked_mean((value - wanted_value).square(), mask, n)
        self.step("value", [value_loss], norms)

        q = self.critic.values_of(now, action[:, :-1])
        critic_loss = 0.5 * losses.critic_loss(q, y, mask, n)
        self.step("critic", [critic_loss], norms)

        if learns_policy:
            policy_loss, entropy = self._policy_values(batch, now, policy, alpha)
            skipped = self.step("policy", [policy_loss, entropy], norms)
            self.temperature.step(entropy, skipped)
            if wanted:
                metrics |= {"policy_loss": policy_loss.detach(), "entropy": entropy.detach()}
        self.follow(settings.tau)
        if wanted:
            metrics |= {
                "value_loss": value_loss.detach(),
                "critic_loss": critic_loss.detach(),
                "q_mean": losses.masked_mean(q.detach().mean(0), mask, n),
                "target_mean": losses.masked_mean(y, mask, n),
                "alpha": alpha,
            }

    def _target(self, batch: Batch, s: Tensor) -> Tensor:
        """y (rows, length - 1), from the value's target one step further."""
        value: Tensor = self.targets["value"](s[:, 1:])
        reward = self.rewards(batch)[:, :-1]
        return losses.td_target(reward, batch.terminated[:, :-1], value, self.settings.gamma)

    def policy_values(self, batch: Batch, inputs: ContextInputs) -> list[Tensor]:
        now = self.policy.context(inputs, batch.is_first)[:, :-1]
        return list(self._policy_values(batch, now, self.policy.at(now), self.temperature.value))

    def _policy_values(
        self, batch: Batch, now: Tensor, policy: SquashedGaussian, alpha: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The loss and the policy's entropy, estimated from the sample."""
        mask, n = batch.mask[:, :-1], batch.steps
        draw = policy.draw(self.generators["noise"])
        q = self.critic.values(now, draw.action, frozen=True).min(0).values
        term = losses.soft_policy_term(q, draw.log_prob, alpha)
        squares = policy.mean.square() + policy.log_std.exp().square()
        term = term + self.settings.action_penalty / 2 * squares.mean(-1)
        return losses.masked_mean(term, mask, n), -losses.masked_mean(draw.log_prob, mask, n)


_SMALL: dict[str, Any] = {
    "size": "tiny",
    "lr_policy": 1e-3,
    "lr_critic": 1e-3,
    "lr_value": 1e-3,
    "lr_first_model": 2e-3,
    "lr_model": 2e-3,
    "lr_alpha": 3e-3,
    "tau": 0.01,
    "batch_windows": 8,
    "context_length": 32,
    "burn_in": 32,
    "warmup_steps": 0,
    "learn_after": 1000,
    "pretraining_updates": 500,
}

METHOD = Method(
    name="vrm",
    title="VRM",
    summary="SAC on the memories of two models that foretell what is seen next",
    source="Han et al. 2020, Variational Recurrent Models for Solving Partially Observable Control "
    "Tasks (oist-cnru/Variational-Recurrent-Models), as in Ni et al. 2022, Recurrent Model-Free RL "
    "Can Be a Strong Baseline for Many POMDPs (twni2016/pomdp-baselines)",
    learner=VRMLearner,
    settings=VRMSettings,
    network=VRMNetwork,
    encoder=None,
    own_memory=True,
    preset=presets({"warmup_steps": 0, "learn_after": 1000, "pretraining_updates": 5000}, _SMALL),
    spaces=("Box",),
    figures=("table-pomdp", "fig-pomdp"),
)
