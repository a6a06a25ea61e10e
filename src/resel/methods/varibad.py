"""VariBAD: PPO that reads what it believes of the task; beliefs learn to foretell rewards.

Zintgraf et al. 2020, VariBAD: A Very Good Method for Bayes-Adaptive Deep RL via Meta-Learning. A
rollout is learned from by PPO; then the beliefs learn from whole trials of a buffer. No gradient of
PPO reaches their encoder.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from resel.config import Config, Count, at_least, positive
from resel.data import Batch, Episodes, PerRollout, ReplayBuffer, Schedule, Taken
from resel.methods import _on_policy, rl2
from resel.methods._beliefs import BeliefSettings, learn_beliefs
from resel.methods._off_policy import presets
from resel.methods.base import Metrics
from resel.methods.ppo_gru import PPOLearner
from resel.methods.registry import Method
from resel.networks import (
    BeliefActorCritic,
    BeliefActorCriticNetwork,
    BeliefVAE,
    Dimensions,
    LikelihoodPolicy,
    Network,
)
from resel.optim import clip_gradients

_TRIALS, _SEEN, _UNSCALED = "trials", "seen", "unscaled"
"""Columns: of batches for the beliefs alone, and what the policy reads, scaled and as it is."""


@dataclass(frozen=True)
class VariBADSettings(rl2.TrialPPOSettings, BeliefSettings):
    """The hyperparameters of VariBAD."""

    rollout_steps: Count = 400
    """Steps of each environment that are learned from at a time."""
    normalize_beliefs: bool = True
    """Scale what the policy reads, observation and belief, by its running mean and deviation; the
    encoder of beliefs reads observations as they are."""
    batch_trials: Count = 10
    """Whole trials in a batch for the beliefs, drawn from all that the replay buffer holds."""
    vae_updates: Count = 1
    """Updates of the beliefs after each rollout."""
    vae_after: Count = 5000
    """None of them before finished trials have had this many steps."""
    max_vae_gradient_norm: float = 1.0
    """Gradients of the encoder of beliefs, and of its decoder, are made this long at most."""

    def __post_init__(self) -> None:
        rl2.TrialPPOSettings.__post_init__(self)
        BeliefSettings.__post_init__(self)
        positive(self, "max_vae_gradient_norm")
        at_least(self, 1, "batch_trials", "vae_updates")
        at_least(self, 0, "vae_after")


class VariBADLearner(PPOLearner):
    """PPO on beliefs, and the beliefs."""

    adam_epsilon: ClassVar[float] = 1e-8
    acts_with: ClassVar[tuple[str, ...]] = ("policy", "vae")
    encoder_learns_apart: ClassVar[bool] = True
    settings: VariBADSettings

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._cut_up = False
        """Whether all of the rollout has been handed out, so that the beliefs are next."""

    @staticmethod
    def networks_of(config: Config, dims: Dimensions) -> dict[str, Network]:
        vae = BeliefVAE(dims, config, config.algorithm.decodes)
        scales = config.algorithm.normalize_beliefs
        return {"vae": vae, "policy": BeliefActorCritic(dims, config, vae, scales=scales)}

    @property
    def policy(self) -> BeliefActorCritic:
        policy = self.networks["policy"]
        assert isinstance(policy, BeliefActorCritic)
        return policy

    @property
    def schedule(self) -> Schedule:
        settings = self.settings
        return PerRollout(
            settings.rollout_steps * self.config.training.num_envs,
            settings.epochs * settings.minibatches,
            further=settings.vae_updates,
            after=settings.vae_after,
        )

    @property
    def updates_to_log(self) -> int:
        return self.settings.epochs * self.settings.minibatches + self.settings.vae_updates

    def note(self, taken: Taken) -> None:
        super().note(taken)
        self._cut_up = False

    def draw(self, buffer: ReplayBuffer, rng: np.random.Generator) -> Batch:
        if self._waiting or not self._cut_up:
            return super().draw(buffer, rng)
        batch = Episodes(self.settings.batch_trials).draw(buffer, rng, self.policy.suitable_rows)
        return dataclasses.replace(batch, extras={_TRIALS: batch.mask[..., None]})

    def _parts(self) -> list[Batch]:
        self._cut_up = True
        return super()._parts()

    def seen(self, batch: Batch) -> dict[str, Tensor]:
        unscaled = self.policy.seen(self.inputs(batch)[0], batch.is_first, batch.state)
        return {_UNSCALED: unscaled, _SEEN: self.policy.scale(unscaled)}

    def judge(self, batch: Batch) -> tuple[LikelihoodPolicy, Tensor]:
        return self.policy.judge(batch.extras[_SEEN])

    def _move_scales(self, batch: Batch) -> None:
        super()._move_scales(batch)
        self.policy.scale.update(batch.extras[_UNSCALED][batch.mask].cpu().float().numpy())

    def update(self, batch: Batch, *, want_metrics: bool = False) -> Metrics:
        """PPO from a part of a rollout, the beliefs from trials; both where it is neither."""
        batch, metrics = batch.to(self.device), Metrics()
        if not self.is_judged(batch):
            metrics |= learn_beliefs(self, batch, want_metrics=want_metrics)
        if _TRIALS in batch.extras:
            self.updates += 1
            return metrics
        return metrics | super().update(batch, want_metrics=want_metrics)

    def shorten(self, name: str) -> None:
        if name != "vae":
            super().shorten(name)
            return
        for group in self.groups[name]:
            clip_gradients([group], self.settings.max_vae_gradient_norm)

    def restore_extra(self, tensors: Mapping[str, Tensor]) -> None:
        super().restore_extra(tensors)
        self._cut_up = self._rollout.full  # a run is saved between steps, and all was learned


_SMALL: dict[str, Any] = {**rl2.SMALL, "lr_vae": 3e-3, "vae_updates": 40, "vae_after": 500}

METHOD = Method(
    name="varibad",
    title="VariBad",
    summary="PPO that reads a belief about the task, learned by foretelling rewards",
    source="Zintgraf et al. 2020, VariBAD: A Very Good Method for Bayes-Adaptive Deep RL via "
    "Meta-Learning (lmzintgraf/varibad)",
    learner=VariBADLearner,
    settings=VariBADSettings,
    network=BeliefActorCriticNetwork,
    encoder="gru",
    preset=presets(
        _on_policy.PAPER,
        _SMALL,
        families={"meta-RL": {"buffer_steps": 4_000_000}},
        tasks={
            "AntDir-v0": {"rollout_steps": 200, "minibatches": 1, "clip": 0.05},
            "CheetahDir-v0": {"rollout_steps": 800, "epochs": 16, "bounded_mean": True},
            "HalfCheetahVel-v0": {"minibatches": 8},
        },
    ),
    figures=("fig-meta",),
)
