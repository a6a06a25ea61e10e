"""PEARL: maximum-entropy learning given a belief about the task, drawn from a posterior.

Rakelly et al. 2019, Efficient Off-Policy Meta-Reinforcement Learning via Probabilistic Context
Variables, Algorithms 1 and 2. The order of an update is: belief, target, critics with the encoder,
value, soft target update, policy.

Glossary
    K tasks, N steps of each, Z entries of the belief z
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from resel import losses
from resel.config import Config, Count, at_least, between, positive
from resel.data import (
    CONTEXT,
    Batch,
    PerStep,
    Sampler,
    Schedule,
    StepsByTask,
    Trajectory,
    pack_episodes,
)
from resel.methods._off_policy import presets
from resel.methods.adaptation import Adaptation, Phase
from resel.methods.base import Learner, Metrics
from resel.methods.registry import Method
from resel.networks import (
    ContextInputs,
    Dimensions,
    Network,
    PearlCritic,
    PearlNetwork,
    PearlPolicy,
    PearlValue,
    SquashedGaussian,
    State,
)

_CRITICS = 2


@dataclass(frozen=True)
class PEARLSettings:
    """The hyperparameters of PEARL."""

    lr_policy: float = 3e-4
    """Learning rate of the policy."""
    lr_critic: float = 3e-4
    """Learning rate of the critics and the encoder."""
    lr_value: float = 3e-4
    """Learning rate of the value."""
    batch_tasks: Count = 10
    """Tasks in a batch."""
    batch_transitions: Count = 256
    """Single steps of each task in a batch."""
    batch_context: Count = 100
    """Steps of each task that the belief is made of."""
    prior_episodes: Count = 1
    """Episodes of a trial with beliefs from the prior, the newest of which contexts are made of."""
    posterior_episodes: Count = 2
    """Episodes of a trial with beliefs from the posterior, after those."""
    test_prior_episodes: Count = 2
    """Episodes with beliefs from the prior in each evaluation, before the one that counts."""
    kl_weight: float = 0.1
    """Weight of the divergence of beliefs from the prior."""
    mean_penalty: float = 1e-3
    """Weight of the squares of the policy's means, before they are squashed."""
    deviation_penalty: float = 1e-3
    """Weight of the squares of the logs of the policy's deviations."""
    alpha: float = 1.0
    """Temperature, which stays as it is: what a nat of entropy is worth."""
    gamma: float = 0.99
    """Discount."""
    tau: float = 0.005
    """Share of the value that its target takes over at each update."""
    learn_after: Count = 0
    """No update before this many environment steps; those after warmup_steps act by the policy."""
    reward_scale: float = 5.0
    """Rewards are multiplied by this in the targets; reported returns are not."""
    normalize_rewards: bool = False
    """Also divide them by the running deviation of discounted returns."""
    normalize_observations: bool = False
    """Scale observations by their running mean and deviation, saved with the agent."""

    def __post_init__(self) -> None:
        positive(self, "lr_policy", "lr_critic", "lr_value", "alpha", "reward_scale")
        at_least(self, 1, "batch_tasks", "batch_transitions", "batch_context")
        at_least(self, 1, "prior_episodes", "posterior_episodes", "test_prior_episodes")
        at_least(self, 0, "learn_after", "kl_weight", "mean_penalty", "deviation_penalty")
        between(self, 0.0, 1.0, "gamma", "tau")


class _Steps(NamedTuple):
    """Single steps of K tasks."""

    observation: Tensor  # (K, N, O)
    action: Tensor  # (K, N, A)
    reward: Tensor  # (K, N), as the environment gave it
    scaled_reward: Tensor  # (K, N)
    terminated: Tensor  # (K, N)
    next_observation: Tensor  # (K, N, O)
    mask: Tensor  # (K, N)

    def of(self, rows: slice, tasks: int) -> _Steps:
        """Some of its rows, laid out by task."""
        parts = (part[rows] for part in self)
        return _Steps(*(part.reshape(tasks, -1, *part.shape[2:]) for part in parts))


class PEARLLearner(Learner):
    """One update of PEARL, and the beliefs that episodes begin with."""

    learns_from = ("task",)
    follows: ClassVar[tuple[str, ...]] = ("value",)
    acts_with: ClassVar[tuple[str, ...]] = ("policy", "critic")  # which has the encoder
    settings: PEARLSettings

    @staticmethod
    def networks_of(config: Config, dims: Dimensions) -> dict[str, Network]:
        sizes: PearlNetwork = config.network
        return {
            "policy": PearlPolicy(dims, sizes),
            "critic": PearlCritic(dims, sizes, _CRITICS),
            "value": PearlValue(dims, sizes),
        }

    @property
    def policy(self) -> PearlPolicy:
        policy = self.networks["policy"]
        assert isinstance(policy, PearlPolicy)
        return policy

    @property
    def critic(self) -> PearlCritic:
        critic = self.networks["critic"]
        assert isinstance(critic, PearlCritic)
        return critic

    @property
    def sampler(self) -> Sampler:
        settings = self.settings
        return StepsByTask(
            settings.batch_tasks,
            settings.batch_transitions,
            settings.batch_context,
            settings.prior_episodes,
        )

    @property
    def schedule(self) -> Schedule:
        return PerStep(self.config.training.updates_per_step, after=self.settings.learn_after)

    @property
    def adaptation(self) -> Adaptation:
        settings = self.settings
        prior, posterior = settings.prior_episodes, settings.posterior_episodes
        return Adaptation(
            training=(Phase(episodes=prior), Phase(episodes=posterior)),
            evaluation=(Phase(episodes=settings.test_prior_episodes),),
        )

    @torch.no_grad()
    def start(self, played: Sequence[Trajectory], generator: torch.Generator) -> State:
        """A belief: from the prior, or from the posterior after some episodes."""
        (z,) = self.policy.initial_state(1)
        noise = torch.randn(z.shape, generator=generator, device=z.device, dtype=z.dtype)
        if not played:
            return (noise,)
        batch = pack_episodes(played).to(self.device)
        mean, variance = self.posterior(self._laid_out(batch)[1])
        return (mean + variance.sqrt() * noise,)

    def posterior(self, context: _Steps) -> tuple[Tensor, Tensor]:
        """Mean and variance of the belief about each task. (K, Z)"""
        mean, variance = self.critic.factors(
            context.observation, context.action, context.reward, context.next_observation
        )
        return losses.product_of_gaussians(mean, variance, context.mask)

    def _laid_out(self, batch: Batch) -> tuple[_Steps, _Steps]:
        """Steps to learn from and steps to make beliefs of, by task.

        What was not drawn by task is of one, and all of it is context.
        """
        observation, action = self.inputs(batch)[0].observation, self.dims.taken(batch.action)
        every = _Steps(
            observation[:, :-1],
            action[:, :-1],
            batch.reward[:, :-1],
            self.rewards(batch)[:, :-1],
            batch.terminated[:, :-1],
            observation[:, 1:],
            batch.mask[:, :-1],
        )
        if CONTEXT not in batch.extras:
            both = every.of(slice(None), 1)
            return both, both
        tasks, n = self.settings.batch_tasks, batch.steps  # a row each
        context = every._replace(mask=batch.extras[CONTEXT][:, :-1, 0].bool())
        return every.of(slice(n), tasks), context.of(slice(n, None), tasks)

    def _belief(self, context: _Steps) -> tuple[Tensor, Tensor]:
        """A sample z (K, 1, Z) for each task, and the divergence from the prior of all."""
        mean, variance = self.posterior(context)
        noise = torch.randn(
            mean.shape, generator=self.generators["noise"], device=mean.device, dtype=mean.dtype
        )
        z = mean + variance.sqrt() * noise
        return z[:, None], losses.kl_from_standard(mean, variance).sum()

    def update(self, batch: Batch, *, want_metrics: bool = False) -> Metrics:
        settings, n = self.settings, batch.steps
        steps, context = self._laid_out(batch.to(self.device))
        seen, mask = steps.observation, steps.mask
        metrics: Metrics = {}
        wanted = metrics if want_metrics else None
        z, kl = self._belief(context)
        z = z.expand(-1, seen.shape[1], -1)  # (K, N, Z)
        fixed = z.detach()

        with torch.no_grad():
            later = self.targets["value"](steps.next_observation, fixed)
            y = losses.td_target(steps.scaled_reward, steps.terminated, later, settings.gamma)
        q = self.critic.given(seen, z, steps.action)  # (2, K, N)
        critic_loss = losses.critic_loss(q, y, mask, n)
        self.step("critic", [critic_loss + settings.kl_weight * kl], wanted)

        policy = self.policy.given(seen, fixed)
        values, judged = self._policy_values(steps, fixed, policy, n)
        error = self.networks["value"](seen, fixed) - judged.detach()
        value_loss = losses.masked_mean(error.square(), mask, n)
        self.step("value", [value_loss], wanted)
        self.follow(settings.tau)
        self.step("policy", values, wanted)
        if want_metrics:
            metrics |= {
                "critic_loss": critic_loss.detach(),
                "value_loss": value_loss.detach(),
                "policy_loss": values[0].detach(),
                "entropy": values[1].detach(),
                "belief_kl": kl.detach(),
                "q_mean": losses.masked_mean(q.detach().mean(0), mask, n),
                "target_mean": losses.masked_mean(y, mask, n),
            }
        self.updates += 1
        return metrics

    def policy_values(self, batch: Batch, inputs: ContextInputs) -> list[Tensor]:
        steps, context = self._laid_out(batch)
        with torch.no_grad():
            z = self._belief(context)[0].expand(-1, steps.mask.shape[1], -1)
        policy = self.policy.given(steps.observation, z)
        return self._policy_values(steps, z, policy, batch.steps)[0]

    def _policy_values(
        self, steps: _Steps, z: Tensor, policy: SquashedGaussian, n: int
    ) -> tuple[list[Tensor], Tensor]:
        """The loss and the entropy, and what the value is to become: min Q - alpha log pi."""
        settings, mask = self.settings, steps.mask
        action, log_prob = policy.sample(self.generators["noise"])
        q = self.critic.given(steps.observation, z, action, frozen=True).min(0).values
        soft = q - settings.alpha * log_prob
        penalty = settings.mean_penalty * policy.mean.square().mean(-1)
        penalty = penalty + settings.deviation_penalty * policy.log_std.square().mean(-1)
        loss = losses.masked_mean(penalty - soft, mask, n)
        return [loss, -losses.masked_mean(log_prob, mask, n)], soft


_PAPER: dict[str, Any] = {
    "warmup_steps": 0,
    "learn_after": 80_000,
    "updates_per_step": 0.4,
    "buffer_steps": 2_000_000,
    "eval_every": 50_000,
}
_SMALL: dict[str, Any] = {
    "size": "tiny",
    "lr_policy": 1e-3,
    "lr_critic": 1e-3,
    "lr_value": 1e-3,
    "tau": 0.01,
    "batch_tasks": 8,
    "batch_transitions": 64,
    "batch_context": 64,
    "alpha": 0.02,
    "warmup_steps": 0,
    "learn_after": 2000,
    "eval_every": 2000,
}

METHOD = Method(
    name="pearl",
    title="PEARL",
    summary="SAC given a belief about the task, which it samples and sharpens over episodes",
    source="Rakelly et al. 2019, Efficient Off-Policy Meta-Reinforcement Learning via "
    "Probabilistic Context Variables (katerakelly/oyster)",
    learner=PEARLLearner,
    settings=PEARLSettings,
    network=PearlNetwork,
    encoder=None,
    own_memory=True,
    preset=presets(_PAPER, _SMALL),
    spaces=("Box",),
    figures=("table-gravity", "fig-gravity"),
)
