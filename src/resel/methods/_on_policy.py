"""Learning from what was just done: rollouts of all environments, advantages, scales.

A rollout is learned from in `epochs` passes, each over all its environments in `minibatches` of
some; then it is forgotten. Scales of observations and rewards move once for a rollout, so that it
is learned from as it was acted in.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from resel import losses
from resel.config import Config, Count, at_least, between, positive
from resel.data import (
    Batch,
    NewestEpisodes,
    PerRollout,
    ReplayBuffer,
    Rollout,
    Sampler,
    Schedule,
    Taken,
    Trajectory,
)
from resel.methods._encoder_rate import EncoderRate
from resel.methods.base import Learner, Metrics
from resel.networks import (
    ActorCritic,
    ContextInputs,
    Dimensions,
    LikelihoodPolicy,
    Network,
    ValuedPolicy,
)
from resel.optim import ParameterGroup, build_optimizer
from resel.randomness import torch_stream


@dataclass(frozen=True)
class OnPolicySettings(EncoderRate):
    """What on-policy methods share."""

    lr_policy: float = 2.5e-4
    """Learning rate of policy and value."""
    gamma: float = 0.99
    """Discount."""
    gae_lambda: float = 0.95
    """How far advantages look ahead before they rely on the value: 0 one step, 1 all."""
    rollout_steps: Count = 128
    """Steps of each environment that are learned from at a time."""
    epochs: Count = 4
    """Passes over a rollout."""
    minibatches: Count = 4
    """Parts of a pass, each some of the environments."""
    value_coefficient: float = 0.5
    """Weight of the value's loss."""
    entropy_coefficient: float = 0.01
    """Weight of the policy's entropy."""
    max_gradient_norm: float = 0.5
    """Gradients are made this long at most."""
    bootstrap_truncated: bool = False
    """Whether an episode that was cut counts on with the value of its last observation; else that
    step teaches nothing, as in the source."""
    reward_scale: float = 1.0
    """Rewards are multiplied by this; reported returns are not."""
    normalize_rewards: bool = True
    """Also divide them by the running deviation of discounted returns."""
    normalize_observations: bool = True
    """Scale observations by their running mean and deviation, saved with the agent."""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "lr_policy", "reward_scale", "max_gradient_norm")
        between(self, 0.0, 1.0, "gamma", "gae_lambda")
        at_least(self, 1, "rollout_steps", "epochs", "minibatches")
        at_least(self, 0, "value_coefficient", "entropy_coefficient")


class OnPolicyLearner(Learner):
    """Keeps the rollout and makes batches of it; a method adds its loss."""

    follows = ()
    on_policy = True
    adam_epsilon: ClassVar[float] = 1e-5
    settings: OnPolicySettings

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        rows, settings = self.config.training.num_envs, self.settings
        self.max_gradient_norm = settings.max_gradient_norm
        width = 1 if self.dims.discrete else self.dims.action
        stored, dtype = self.dims.stored
        self._rollout = Rollout(
            rows,
            settings.rollout_steps,
            stored,
            width,
            self.policy.initial_state(rows),
            dtype,
        )
        self._returns = torch.zeros(rows, dtype=torch.float64)
        """Discounted rewards so far of the episode of each environment."""
        self._waiting: list[Batch] = []
        """Parts of the last rollout that are still to be learned from."""
        self.generators["minibatches"] = torch_stream(self.seed, "minibatches")

    def cannot_learn(self) -> str | None:
        rows, parts = self.config.training.num_envs, self.settings.minibatches
        if rows >= parts:
            return None
        return (
            f"minibatches={parts} are parts of the environments, of which there are "
            f"num_envs={rows}: raise num_envs or lower minibatches."
        )

    @staticmethod
    def networks_of(config: Config, dims: Dimensions) -> dict[str, Network]:
        return {"policy": ActorCritic(dims, config)}

    def optimizer_of(self, groups: Sequence[ParameterGroup]) -> torch.optim.Optimizer:
        return build_optimizer(groups, eps=self.adam_epsilon)

    @property
    def sampler(self) -> Sampler:
        return NewestEpisodes(self.settings.rollout_steps * self.config.training.num_envs)

    @property
    def schedule(self) -> Schedule:
        settings = self.settings
        steps = settings.rollout_steps * self.config.training.num_envs
        return PerRollout(steps, settings.epochs * settings.minibatches)

    def observe(self, trajectory: Trajectory) -> None:
        """Scales move with rollouts, not with episodes."""

    def note(self, taken: Taken) -> None:
        self._rollout.add(taken)

    def drop(self, rows: NDArray[np.bool_]) -> None:
        self._rollout.cut(rows)

    def draw(self, buffer: ReplayBuffer, rng: np.random.Generator) -> Batch:
        """The next part of the rollout that has just been completed."""
        if not self._waiting:
            if not self._rollout.full:  # asked for out of turn, as a diagnosis does
                return super().draw(buffer, rng)
            self._waiting = self._parts()
        return self._waiting.pop(0)

    def _parts(self) -> list[Batch]:
        """The rollout with its advantages, cut into all parts of all passes."""
        settings, rollout = self.settings, self._rollout
        batch = self._judged(rollout.batch().to(self.device))
        rows = len(batch.mask)
        parts = []
        for _ in range(settings.epochs):
            order = torch.randperm(rows, generator=self.generators["minibatches"])
            parts += [
                batch.rows(part.to(self.device)) for part in order.chunk(settings.minibatches)
            ]
        self._move_scales(batch)
        return parts

    def _move_scales(self, batch: Batch) -> None:
        """Take in the steps of the rollout that happened; this is the batch of it."""
        happened = self._rollout.counted("happened")
        self.normalizer.update(self._rollout.counted("observation")[happened])
        if not self.reward_scale.enabled:
            return
        rewards, starts = self._rollout.counted("reward"), self._rollout.counted("first")
        total = self._returns.numpy()
        returns = np.empty(rewards.shape, np.float32)
        for t in range(rewards.shape[1]):
            total[:] = np.where(starts[:, t], 0.0, self.settings.gamma * total) + rewards[:, t]
            returns[:, t] = total
        self.reward_scale.update(returns[happened][:, None])

    @torch.no_grad()
    def _judged(self, batch: Batch) -> Batch:
        """A batch with inputs as they were seen, and what its losses need of the acting policy."""
        settings = self.settings
        action = self.dims.taken(batch.action)
        seen = self.seen(batch)
        policy, value = self.judge(dataclasses.replace(batch, extras=seen))
        ended = batch.mask & ~losses.continues(batch.mask, batch.is_first)
        cut = batch.extras["truncated"][..., 0].bool() if "truncated" in batch.extras else ended
        advantage = losses.advantages(
            self.rewards(batch),
            value,
            batch.terminated,
            batch.mask,
            batch.is_first,
            settings.gamma,
            settings.gae_lambda,
            None if settings.bootstrap_truncated else cut & ~batch.terminated.bool(),
        )
        columns = {
            "log_prob": policy.log_prob(action),
            "value": value,
            "target": advantage + value,
            "advantage": self.scaled(advantage, batch.mask),
        }
        known = {name: column[..., None] for name, column in columns.items()}
        return dataclasses.replace(batch, extras={**known, **seen})

    def seen(self, batch: Batch) -> dict[str, Tensor]:
        """What the networks read, as columns: it stays what it was while scales move on."""
        inputs, _ = self.inputs(batch)
        return {f"seen_{name}": part for name, part in inputs._asdict().items()}

    def judge(self, batch: Batch) -> tuple[LikelihoodPolicy, Tensor]:
        """Distributions and values (rows, length) from these columns."""
        inputs = ContextInputs(*(batch.extras[f"seen_{name}"] for name in ContextInputs._fields))
        return self.policy.evaluate(inputs, batch.is_first, batch.state)

    @staticmethod
    def is_judged(batch: Batch) -> bool:
        """Whether it is part of a rollout, and has what the losses need."""
        return "advantage" in batch.extras

    def scaled(self, advantage: Tensor, mask: Tensor) -> Tensor:
        """Advantages as the policy's loss takes them."""
        return advantage

    def update(self, batch: Batch, *, want_metrics: bool = False) -> Metrics:
        metrics: Metrics = {}
        batch = batch.to(self.device)
        if not self.is_judged(batch):
            batch = self._judged(batch)
        values, found = self._values(batch)
        self.step("policy", values, metrics if want_metrics else None)
        if want_metrics:
            metrics |= found
        self.updates += 1
        return metrics

    def policy_values(self, batch: Batch, inputs: ContextInputs) -> list[Tensor]:
        return self._values(self._judged(batch))[0]

    def _values(self, batch: Batch) -> tuple[list[Tensor], Metrics]:
        settings, n, mask = self.settings, batch.steps, batch.mask
        policy, value = self.judge(batch)
        known = {name: column[..., 0] for name, column in batch.extras.items()}
        policy_term, value_term = self.terms(policy, value, self.dims.taken(batch.action), known)
        policy_loss = losses.masked_mean(policy_term, mask, n)
        value_loss = losses.masked_mean(value_term, mask, n)
        entropy = losses.masked_mean(policy.entropy(), mask, n)
        loss = policy_loss + settings.value_coefficient * value_loss
        loss = loss - settings.entropy_coefficient * entropy
        metrics = {
            "policy_loss": policy_loss.detach(),
            "value_loss": value_loss.detach(),
            "entropy": entropy.detach(),
            "value_mean": losses.masked_mean(value.detach(), mask, n),
        }
        return [loss], metrics

    @abstractmethod
    def terms(
        self, policy: LikelihoodPolicy, value: Tensor, action: Tensor, known: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """The policy's and the value's loss at every step. (rows, length) each

        `known` is of when it acted: log_prob and value, and advantage and target of the value.
        """

    @property
    def policy(self) -> ValuedPolicy:
        policy = self.networks["policy"]
        assert isinstance(policy, ValuedPolicy)
        return policy

    def extra_state(self) -> dict[str, Tensor]:
        return {**self._rollout.state(), "returns": self._returns}

    def restore_extra(self, tensors: Mapping[str, Tensor]) -> None:
        self._rollout.restore(tensors)
        self._returns.copy_(tensors["returns"])
        self._waiting = []


PAPER: dict[str, Any] = {
    "initialisation": "orthogonal",
    "warmup_steps": 0,
    "num_envs": 16,
}
"""What both sources set besides the defaults; the first is of encoders with gates."""
