"""TD7: TD3 with learned embeddings, priorities, and a policy that is kept while it is the best.

Fujimoto et al. 2023, For SALE: State-Action Representation Learning for Deep Reinforcement
Learning, Algorithm 1. The order of an update is: embeddings, target, critics,
priorities, at every `policy_delay`th update the policy, and at every `target_every`th one all
copies: targets become what learns, and what policy and critics read of embeddings becomes new.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from resel import losses
from resel.config import Config, Count, at_least, between, positive
from resel.data import Batch, Priorities, PrioritizedTransitions, Sampler, Schedule, Trajectory
from resel.methods._assessment import Assessment
from resel.methods._off_policy import presets
from resel.methods.base import Learner, Metrics
from resel.methods.registry import Method
from resel.methods.td3 import SmoothedSettings
from resel.networks import (
    ContextInputs,
    Deterministic,
    Dimensions,
    Embeddings,
    Network,
    PolicyNetwork,
    SALECritic,
    SALENetwork,
    SALEPolicy,
)

_CRITICS = 2


@dataclass(frozen=True)
class TD7Settings(SmoothedSettings):
    """The hyperparameters of TD7."""

    lr_embeddings: float = 3e-4
    """Learning rate of the embeddings."""
    batch_transitions: Count = 256
    """Single steps in a batch, drawn by their priorities."""
    priority_exponent: float = 0.4
    """A step's priority is max(|error|, 1) to this power; 0 draws all steps alike."""
    target_every: Count = 250
    """Updates between two copies into the targets."""
    assessment_episodes: Count = 20
    """Episodes after which a policy that was never worse than the one kept is kept instead."""
    assessment_after: Count = 750_000
    """Updates before which a single episode is enough for that; 0 never lets one be enough."""
    assessment_share: float = 0.9
    """What is to be reached falls to this share when more episodes begin to be asked for."""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "lr_embeddings")
        between(self, 0.0, 1.0, "priority_exponent", "assessment_share")
        at_least(self, 1, "batch_transitions", "target_every", "assessment_episodes")
        at_least(self, 0, "assessment_after")


class TD7Learner(Learner):
    """One update of TD7, the priorities of stored steps, and the policy that is kept."""

    follows: ClassVar[tuple[str, ...]] = ("policy", "critic")
    acts_with: ClassVar[tuple[str, ...]] = ("kept_policy",)
    settings: TD7Settings

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        training = self.config.training
        self.priorities = Priorities(training.buffer_steps)
        first = 1 if self.settings.assessment_after else self.settings.assessment_episodes
        self.assessment = Assessment(training, first, self._keep)
        self._kept = copy.deepcopy(self.policy).requires_grad_(False)
        bounds = torch.tensor([[0.0, 0.0], [torch.inf, -torch.inf]], dtype=self.dtype)
        self._range, self._seen = bounds.to(self.device)
        """Lowest and highest value that targets are made with, and of the targets so far."""

    @staticmethod
    def networks_of(config: Config, dims: Dimensions) -> dict[str, Network]:
        sizes: SALENetwork = config.network
        embeddings = Embeddings(dims, sizes)
        noise = config.algorithm.exploration_noise
        return {
            "embeddings": embeddings,
            "policy": SALEPolicy(dims, sizes, embeddings, noise),
            "critic": SALECritic(dims, sizes, embeddings, _CRITICS),
        }

    @property
    def sampler(self) -> Sampler:
        return PrioritizedTransitions(self.settings.batch_transitions, self.priorities)

    @property
    def schedule(self) -> Schedule:
        return self.assessment

    @property
    def evaluation_policy(self) -> PolicyNetwork:
        """The policy that is kept."""
        return self._kept

    def _keep(self) -> None:
        self._kept.load_state_dict(self.policy.state_dict())

    def observe(self, trajectory: Trajectory) -> None:
        super().observe(trajectory)
        self.priorities.add()

    def update(self, batch: Batch, *, want_metrics: bool = False) -> Metrics:
        settings, n = self.settings, batch.steps
        if self.updates == settings.assessment_after > 0:
            self.assessment.ask_for_more(settings.assessment_episodes, settings.assessment_share)
        batch = batch.to(self.device)
        inputs, action = self.inputs(batch)
        mask = batch.mask[:, :-1]  # the last step of a row never counts
        metrics: Metrics = {}
        wanted = metrics if want_metrics else None

        embeddings_loss = self._embeddings_loss(batch, inputs, action)
        self.step("embeddings", [embeddings_loss], wanted)

        with torch.no_grad():
            y = self._target(batch, inputs)
        q = self.critic.values_of(self.critic.embed_counted(inputs, batch.is_first), action[:, :-1])
        critic_loss = losses.lap_loss(q, y, mask, n)
        skipped = self.step("critic", [critic_loss], wanted)
        self._take_in(batch, q.detach(), y, skipped)

        if (self.updates + 1) % settings.policy_delay == 0:
            values = self.policy_values(batch, inputs)
            self.step("policy", values, wanted)
            if want_metrics:
                metrics["policy_loss"] = values[0].detach()
        if want_metrics:
            metrics |= {
                "embeddings_loss": embeddings_loss.detach(),
                "critic_loss": critic_loss.detach(),
                "q_mean": losses.masked_mean(q.detach().mean(0), mask, n),
                "target_mean": losses.masked_mean(y, mask, n),
            }
        self.updates += 1
        if self.updates % settings.target_every == 0:
            self._copy()
        return metrics

    def _embeddings_loss(self, batch: Batch, inputs: ContextInputs, action: Tensor) -> Tensor:
        """Mean squared difference of zsa and the next zs, section 4.1."""
        embeddings = self.networks["embeddings"]
        assert isinstance(embeddings, Embeddings)
        observation = inputs.observation
        with torch.no_grad():
            wanted = embeddings.of_state(observation[:, 1:])
        zsa = embeddings.of_both(embeddings.of_state(observation[:, :-1]), action[:, :-1])
        error = (zsa - wanted).square().mean(-1)
        return losses.masked_mean(error, batch.mask[:, :-1], batch.steps)

    def _target(self, batch: Batch, inputs: ContextInputs) -> Tensor:
        """y (rows, length - 1), the next value kept within the range of earlier targets."""
        settings = self.settings
        policy: Deterministic = self.targets["policy"](inputs, batch.is_first)
        noise = settings.target_noise, settings.target_noise_clip
        action = policy.smoothed(*noise, self.generators["noise"])
        embedded = self.target_critic.embed(inputs, batch.is_first)
        q = self.target_critic.values(embedded, action).min(0).values
        q = q.clamp(self._range[0], self._range[1])
        reward = self.rewards(batch)[:, :-1]
        return losses.td_target(reward, batch.terminated[:, :-1], q[:, 1:], settings.gamma)

    def policy_values(self, batch: Batch, inputs: ContextInputs) -> list[Tensor]:
        embedded = self.critic.embed_counted(inputs, batch.is_first)
        action = self.policy(inputs, batch.is_first).mode()[:, :-1]
        q = self.critic.values(embedded, action, frozen=True).mean(0)
        return [-losses.masked_mean(q, batch.mask[:, :-1], batch.steps)]

    def _take_in(self, batch: Batch, q: Tensor, y: Tensor, skipped: Tensor) -> None:
        """Range and priorities from the errors of an update, unless it was left out."""
        mask, left_out = batch.mask[:, :-1], skipped > 0
        low = torch.where(mask, y, torch.inf).min().minimum(self._seen[0])
        high = torch.where(mask, y, -torch.inf).max().maximum(self._seen[1])
        self._seen = torch.where(left_out, self._seen, torch.stack([low, high]))
        if len(batch.origins) == batch.steps == len(mask) and not bool(left_out):  # a row each
            error = (q - y)[:, :, 0].abs().max(0).values
            values = error.clamp(min=1).pow(self.settings.priority_exponent)
            self.priorities.set(np.array(batch.origins), values.float().cpu().numpy())

    def _copy(self) -> None:
        """Targets become what learns; then what policy and critics read of embeddings does."""
        for name in self.follows:
            self.targets[name].load_state_dict(self.networks[name].state_dict())
        newest = self.networks["embeddings"].state_dict()
        for network in (self.policy, self.critic):
            network.get_submodule("embeddings").load_state_dict(newest)
        self._range.copy_(torch.where(self._seen.isfinite(), self._seen, self._range))
        self.priorities.look_for_largest()

    def weights(self) -> dict[str, Tensor]:
        kept = {f"kept_policy.{name}": value for name, value in self._kept.state_dict().items()}
        return super().weights() | kept | {"value_range": self._range}

    def extra_state(self) -> dict[str, Tensor]:
        own = {"seen_targets": self._seen.clone()}
        return own | self.priorities.state() | self.assessment.state()

    def restore_extra(self, tensors: Mapping[str, Tensor]) -> None:
        self._seen = tensors["seen_targets"].clone()
        self.priorities.restore(tensors)
        self.assessment.restore(tensors)


_SMALL: dict[str, Any] = {
    "size": "tiny",
    "lr_policy": 1e-3,
    "lr_critic": 1e-3,
    "lr_embeddings": 1e-3,
    "target_every": 100,
    # What an episode of a small task brings depends on where it begins: one says little.
    "assessment_after": 0,
    "assessment_episodes": 4,
    "warmup_steps": 1000,
}

METHOD = Method(
    name="td7",
    title="TD7",
    summary="TD3 with learned embeddings, priorities and a policy that is kept; no memory",
    source="Fujimoto et al. 2023, For SALE: State-Action Representation Learning for Deep "
    "Reinforcement Learning (sfujim/TD7)",
    learner=TD7Learner,
    settings=TD7Settings,
    network=SALENetwork,
    encoder=None,
    preset=presets({"warmup_steps": 25_000}, _SMALL),
    spaces=("Box",),
    figures=("table-mdp",),
)
