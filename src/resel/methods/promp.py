"""ProMP: a policy that one gradient step adapts to a task, learned through that step.

Rothfuss et al. 2019, ProMP: Proximal Meta-Policy Search, Algorithm 1. Every environment plays one
task: a phase with the policy, then a phase with the policy after its own step. From both phases of
all environments the policy learns a few times; then they are forgotten.

Glossary
    K tasks, N steps of each, P weights; theta weights of the policy
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from resel import losses
from resel.config import Config, Count, at_least, between, positive
from resel.data import (
    ADAPTED,
    Batch,
    NewestTrials,
    PerRollout,
    ReplayBuffer,
    Sampler,
    Schedule,
    Taken,
    Trajectory,
    pack_episodes,
)
from resel.methods._off_policy import presets
from resel.methods.adaptation import Adaptation, Phase
from resel.methods.base import Learner, Metrics
from resel.methods.registry import Method
from resel.networks import (
    AdaptableNetwork,
    AdaptablePolicy,
    ContextInputs,
    Dimensions,
    Gaussian,
    Network,
    State,
)

_RIDGE = 1e-5
_PHASES = 2


@dataclass(frozen=True)
class ProMPSettings:
    """The hyperparameters of ProMP."""

    lr_policy: float = 1e-3
    """Learning rate of the policy that is to be adapted."""
    inner_step: float = 0.1
    """Length of the gradient step that adapts it."""
    phase_steps: Count = 2000
    """Steps of each task before the policy adapts, and again after it; as many at a test before."""
    episode_steps: Count = 100
    """Episodes are cut after this many steps, but for those that count in evaluations."""
    epochs: Count = 5
    """Updates from the same steps."""
    clip: float = 0.3
    """How far the probability ratio of the adapted policy may move in the loss."""
    kl_weight: float = 5e-4
    """Weight of how far the policy has moved away from the one that acted."""
    gamma: float = 0.99
    """Discount."""
    gae_lambda: float = 1.0
    """How far advantages look ahead before they rely on the baseline: 0 one step, 1 all."""

    def __post_init__(self) -> None:
        positive(self, "lr_policy", "inner_step", "clip")
        at_least(self, 1, "phase_steps", "episode_steps", "epochs")
        at_least(self, 0, "kl_weight")
        between(self, 0.0, 1.0, "gamma", "gae_lambda")


class _Phase(NamedTuple):
    """Steps of K tasks with one set of weights each, and what was known when they were acted."""

    observation: Tensor  # (K, N, O)
    action: Tensor  # (K, N, A)
    advantage: Tensor  # (K, N)
    mask: Tensor  # (K, N)

    def mean(self, x: Tensor) -> Tensor:
        """Of x (K, N) over the steps that count, for each task. (K,)"""
        counted = torch.where(self.mask, x, torch.zeros_like(x)).sum(1)
        return counted / self.mask.sum(1).clamp(min=1)


class _Known(NamedTuple):
    """Both phases, and how probable the actions were in each."""

    before: _Phase
    after: _Phase
    acted: Gaussian
    """The policy of the first phase."""
    log_prob: Tensor  # (K, N), of the actions of the first phase
    adapted_log_prob: Tensor  # (K, N), of those of the second


class ProMPLearner(Learner):
    """The inner step, and updates through it."""

    follows: ClassVar[tuple[str, ...]] = ()
    on_policy = True
    learns_from = ("task",)
    settings: ProMPSettings

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._judged: tuple[Batch, _Known] | None = None
        """What the updates from the same steps share."""

    def cannot_learn(self) -> str | None:
        training = self.config.training
        if training.num_envs < 2:
            return (
                f"num_envs={training.num_envs}: promp learns from several tasks at once, one in "
                "each environment: raise it, to 40 as its source has it or to 10 for a small task."
            )
        if training.buffer_steps < 2 * self._steps:
            raised = "it"
            if training.buffer_steps == training.steps:
                raised = "it, or steps (--steps), from which the preset auto takes it,"
            return (
                f"buffer_steps={training.buffer_steps:,} is too small: both phases of all tasks "
                f"are {self._steps:,} steps (2 x phase_steps x num_envs), and promp needs room for "
                f"twice as many: raise {raised} to {2 * self._steps:,}, or lower phase_steps."
            )
        return None

    @property
    def _steps(self) -> int:
        """Steps that are learned from together."""
        return _PHASES * self.settings.phase_steps * self.config.training.num_envs

    @staticmethod
    def networks_of(config: Config, dims: Dimensions) -> dict[str, Network]:
        return {"policy": AdaptablePolicy(dims, config.network)}

    @property
    def policy(self) -> AdaptablePolicy:
        policy = self.networks["policy"]
        assert isinstance(policy, AdaptablePolicy)
        return policy

    @property
    def sampler(self) -> Sampler:
        return NewestTrials(self.config.training.num_envs, self._steps)

    @property
    def schedule(self) -> Schedule:
        return PerRollout(self._steps, self.settings.epochs)

    @property
    def adaptation(self) -> Adaptation:
        steps, longest = self.settings.phase_steps, self.settings.episode_steps
        phase = Phase(steps=steps, longest=longest, sampled=True, keeps=True)
        return Adaptation(training=(phase,) * _PHASES, evaluation=(phase,))

    @torch.enable_grad()
    def start(self, played: Sequence[Trajectory], generator: torch.Generator) -> State:
        """What the inner step adds to the weights; nothing before the first episode."""
        if not played:
            return self.policy.initial_state(1)
        batch = pack_episodes(played, len(played)).to(self.device)
        before = self._phase(batch, slice(None), 1)
        weights = self.policy.flat().detach()[None].requires_grad_()
        with torch.no_grad():
            acted = self.policy.given(before.observation, weights).log_prob(before.action)
        return ((self.adapted(weights, before, acted) - weights).detach(),)

    def note(self, taken: Taken) -> None:
        """The buffer has all that is learned from."""

    def draw(self, buffer: ReplayBuffer, rng: np.random.Generator) -> Batch:
        """The newest trials; the updates from the same steps are given the same batch."""
        if self._judged is None or self.updates % self.settings.epochs == 0:
            batch = super().draw(buffer, rng).to(self.device)
            self._judged = batch, self._known(batch)
        return self._judged[0]

    def _phase(self, batch: Batch, rows: slice, tasks: int) -> _Phase:
        """Some rows of a batch as steps of so many tasks, with advantages over a fitted baseline.

        An episode that was cut counts as ended, as in the source.
        """
        settings = self.settings
        mask, is_first, reward = batch.mask[rows], batch.is_first[rows], batch.reward[rows]
        ended = (mask & ~losses.continues(mask, is_first)).to(reward.dtype)
        observation = self.normalizer(batch.observation[rows])
        shape = (tasks, -1)

        def ahead(value: Tensor, gae_lambda: float) -> Tensor:
            known = (reward, value, ended, mask, is_first)
            return losses.advantages(*known, settings.gamma, gae_lambda)

        features = losses.baseline_features(observation, losses.time_of(is_first))
        value = losses.linear_baseline(
            features.reshape(*shape, features.shape[-1]),
            ahead(torch.zeros_like(reward), 1.0).reshape(shape),
            mask.reshape(shape),
            _RIDGE,
        )
        advantage = ahead(value.view_as(reward), settings.gae_lambda)
        action = self.dims.taken(batch.action[rows])
        return _Phase(
            observation.reshape(*shape, observation.shape[-1]),
            action.reshape(*shape, action.shape[-1]),
            losses.standardized(advantage.reshape(shape), mask.reshape(shape)),
            mask.reshape(shape),
        )

    def _known(self, batch: Batch) -> _Known:
        """Both phases of a batch, judged by the policy as it is.

        What was not drawn by trial is one task, and both phases at once.
        """
        if ADAPTED in batch.extras:
            tasks = len(batch.mask) // _PHASES
            before = self._phase(batch, slice(tasks), tasks)
            after = self._phase(batch, slice(tasks, None), tasks)
        else:
            before = after = self._phase(batch, slice(None), 1)
        weights = self._weights(before).detach().requires_grad_()
        with torch.no_grad():
            acted = self.policy.given(before.observation, weights)
            log_prob = acted.log_prob(before.action)
        adapted = self.adapted(weights, before, log_prob).detach()
        with torch.no_grad():
            after_log_prob = self.policy.given(after.observation, adapted).log_prob(after.action)
        return _Known(before, after, acted, log_prob, after_log_prob)

    def _weights(self, phase: _Phase) -> Tensor:
        """The policy's weights for each task, all alike. (K, P)"""
        return self.policy.flat().expand(len(phase.mask), -1)

    def adapted(self, weights: Tensor, before: _Phase, acted_log_prob: Tensor) -> Tensor:
        """theta + inner_step times the gradient of mean(rho A), for each task alone. (K, P)

        It can be differentiated once more.
        """
        policy = self.policy.given(before.observation, weights)
        ratio = (policy.log_prob(before.action) - acted_log_prob).exp()
        gain = before.mean(ratio * before.advantage).sum()
        (gradient,) = torch.autograd.grad(gain, weights, create_graph=True)
        return weights + self.settings.inner_step * gradient

    def update(self, batch: Batch, *, want_metrics: bool = False) -> Metrics:
        held = self._judged
        known = held[1] if held is not None and held[0] is batch else None
        known = known or self._known(batch.to(self.device))
        metrics: Metrics = {}
        loss, found = self.outer_loss(known)
        self.step("policy", [loss], metrics if want_metrics else None)
        self.updates += 1
        if self.updates % self.settings.epochs == 0:
            self._judged = None
        return metrics | found if want_metrics else metrics

    def policy_values(self, batch: Batch, inputs: ContextInputs) -> list[Tensor]:
        return [self.outer_loss(self._known(batch))[0]]

    def outer_loss(self, known: _Known) -> tuple[Tensor, Metrics]:
        """Equation 13 of the source: the clipped gain after the inner step, held by a KL."""
        settings, before, after = self.settings, known.before, known.after
        weights = self._weights(before)
        adapted = self.adapted(weights, before, known.log_prob)
        log_prob = self.policy.given(after.observation, adapted).log_prob(after.action)
        term = losses.clipped_policy_term(
            log_prob, known.adapted_log_prob, after.advantage, settings.clip
        )
        policy_loss = after.mean(term).mean()
        now, acted = self.policy.given(before.observation, weights), known.acted
        moved = losses.gaussian_kl(acted.mean, acted.log_std, now.mean, now.log_std)
        kl = before.mean(moved).mean()
        metrics = {
            "policy_loss": policy_loss.detach(),
            "policy_kl": kl.detach(),
            "inner_change": (adapted - weights).detach().norm(dim=1).mean(),
            "entropy": now.entropy().detach().mean(),
        }
        return policy_loss + settings.kl_weight * kl, metrics


_PAPER: dict[str, Any] = {
    "num_envs": 40,
    "warmup_steps": 0,
    "buffer_steps": 320_000,
    "eval_every": 160_000,
}
_SMALL: dict[str, Any] = {
    "size": "small",
    "lr_policy": 3e-3,
    "num_envs": 10,
    "phase_steps": 100,
    "warmup_steps": 0,
    "buffer_steps": 100_000,
    "eval_every": 2000,
}

METHOD = Method(
    name="promp",
    title="ProMP",
    summary="A policy that one gradient step adapts to a task, learned through that step",
    source="Rothfuss et al. 2019, ProMP: Proximal Meta-Policy Search (jonasrothfuss/ProMP)",
    learner=ProMPLearner,
    settings=ProMPSettings,
    network=AdaptableNetwork,
    encoder=None,
    preset=presets(_PAPER, _SMALL),
    spaces=("Box",),
    figures=("table-gravity", "fig-gravity"),
)
