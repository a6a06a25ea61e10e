"""ESCP: contexts that are alike within a task and differ between tasks, and SAC on them.

Luo et al. 2022, Adapt to Environment Sudden Changes by Learning a Context Sensitive Policy
(FanmingL/ESCP). The context knows the newest 16 steps alone, in training and in acting. It learns
by the relation of its means over tasks, whose numbers are known in training. Critics read the
moving mean of the task in its place, the policy a context with a little noise. The order of an
update is: moving means, then SAC's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from resel import losses
from resel.config import Count, at_least, between, positive
from resel.data import Batch, Histories, Sampler, Trajectory
from resel.envs import Told
from resel.errors import ConfigError
from resel.methods._encoder_rate import EncoderRate
from resel.methods._latent import (
    CONTEXT,
    CRITIC_CONTEXT,
    ESCP_SOURCE,
    SMALL,
    LatentLearner,
    with_columns,
)
from resel.methods._off_policy import ESCP, AlphaLoss, SoftSettings, presets
from resel.methods.base import Metrics
from resel.methods.registry import Method
from resel.networks import ContextInputs, RecentNetwork, RecentTrunk, StochasticPolicy


@dataclass(frozen=True)
class ESCPSettings(EncoderRate, SoftSettings):
    """The hyperparameters of ESCP."""

    alpha_loss: AlphaLoss = "exp"
    """What the temperature descends on: log alpha, or alpha itself (through exp), times how far the
    entropy is above its target."""
    batch_transitions: Count = 256
    """Single steps in a batch, drawn uniformly, each with its history."""
    context_length: Count = 16
    """Newest steps that the context knows, in training and in acting."""
    n_tasks: Count = 40
    """Tasks to train on: their numbers, told by info["task"] of a reset, are below this."""
    relation_after: Count = 100_000
    """Steps of finished episodes before which the context does not learn."""
    consistency_weight: float = 50.0
    """Weight of the distance of contexts from the mean of their task."""
    diversity_weight: float = 0.004
    """Weight of the nearness of the means of different tasks."""
    diversity_below: float = 0.1
    """That nearness counts while the distance is below this."""
    kernel_sharpness: float = 3000.0
    """How fast nearness falls with the squared difference of two means."""
    mean_tau: float = 0.005
    """Share of a batch's mean of a task that the moving one takes over at each update."""
    context_noise: float = 0.01
    """Standard deviation of the noise on the context that the policy learns with."""

    def __post_init__(self) -> None:
        EncoderRate.__post_init__(self)
        SoftSettings.__post_init__(self)
        at_least(self, 1, "batch_transitions", "context_length", "n_tasks")
        at_least(self, 0, "relation_after")
        positive(self, "consistency_weight", "kernel_sharpness", "diversity_below")
        between(self, 0.0, 1e6, "diversity_weight")
        between(self, 0.0, 1.0, "mean_tau", "context_noise")


class ESCPLearner(LatentLearner):
    """Keeps the moving mean of the contexts of every task."""

    learns_from = ("task",)
    settings: ESCPSettings

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        shape = self.settings.n_tasks, self.config.network.context_size
        self._task_means = torch.zeros(shape, dtype=self.dtype, device=self.device)
        self._tasks_known = torch.zeros(shape[0], dtype=torch.bool, device=self.device)
        """Tasks that have a mean."""
        self._finished = 0
        """Steps of finished episodes."""

    @property
    def sampler(self) -> Sampler:
        return Histories(self.settings.batch_transitions, self.settings.context_length)

    def check_told(self, told: Told) -> None:
        super().check_told(told)
        self._check_number(int(told["task"][0]))

    def _check_number(self, task: int) -> None:
        if task >= self.settings.n_tasks:
            raise ConfigError(
                f"info['task'] of a reset was {task}, and n_tasks={self.settings.n_tasks} tasks "
                "have the numbers below that: set n_tasks above the highest one of the training."
            )

    def observe(self, trajectory: Trajectory) -> None:
        self._check_number(int(trajectory.extras["task"][0, 0]))
        super().observe(trajectory)
        self._finished += len(trajectory)

    def update(self, batch: Batch, *, want_metrics: bool = False) -> Metrics:
        batch = self._with_contexts(batch.to(self.device))
        metrics = super().update(batch, want_metrics=want_metrics)
        means, known = self._moved(batch)
        if want_metrics:
            among = known.to(self.dtype)[:, None] / known.sum()
            metrics["task_mean_spread"] = (
                (among * (means - (among * means).sum(0)).square()).sum().sqrt()
            )
        good = means.isfinite().all() & (self._skipped["policy"] == 0)
        self._task_means = torch.where(good, means, self._task_means)
        self._tasks_known = torch.where(good, known, self._tasks_known)
        return metrics

    def _with_contexts(self, batch: Batch) -> Batch:
        """Rows of two steps, one that counts and the next, with their contexts."""
        if CONTEXT in batch.extras:
            return batch
        trunk, inputs = self._latent.trunk, self.inputs(batch)[0]
        assert isinstance(trunk, RecentTrunk)
        counts = batch.mask.flatten()
        # Their number is known, so nobody has to wait until they are counted on the device.
        now = torch.sort(~counts, stable=True).indices[: batch.steps]  # (n,)
        context = trunk.at(inputs, batch.is_first, now)
        with torch.no_grad():
            after = trunk.at(inputs, batch.is_first, now + 1)
        both = torch.stack([now, now + 1], 1)
        first = torch.zeros_like(both, dtype=torch.bool)
        first[:, 0] = True
        columns = ("observation", "action", "reward", "terminated")
        chosen: dict[str, Any] = {n: getattr(batch, n).flatten(0, 1)[both] for n in columns}
        extras = {name: column.flatten(0, 1)[both] for name, column in batch.extras.items()}
        batch = dataclasses.replace(batch, **chosen, is_first=first, mask=first, extras=extras)
        batch = with_columns(batch, {CONTEXT: torch.stack([context, after], 1)})
        mean = self._of_task(batch) @ self._moved(batch)[0]  # (n, Z)
        return with_columns(batch, {CRITIC_CONTEXT: torch.stack([mean, mean], 1)})

    def _of_task(self, batch: Batch) -> Tensor:
        """1 where a step is of a task. (n, K)"""
        numbers = torch.arange(len(self._task_means), device=self.device)
        return (batch.extras["task"][:, 0] == numbers).to(self.dtype)

    @torch.no_grad()
    def _moved(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The moving means after this batch, and which tasks have one."""
        means, present = losses.task_means(batch.extras[CONTEXT][:, 0], self._of_task(batch))
        share = 1 - (1 - self.settings.mean_tau) * self._tasks_known.to(self.dtype)[:, None]
        moved = self._task_means + share * (means - self._task_means)
        return torch.where(present[:, None], moved, self._task_means), self._tasks_known | present

    def _policy_of(self, batch: Batch, inputs: ContextInputs) -> StochasticPolicy:
        context = batch.extras[CONTEXT]
        noise = torch.randn(
            context.shape,
            generator=self.generators["noise"],
            device=context.device,
            dtype=context.dtype,
        )
        noisy = context.detach() + self.settings.context_noise * noise
        return super()._policy_of(with_columns(batch, {CONTEXT: noisy}), inputs)

    def _context_loss(self, batch: Batch, inputs: ContextInputs) -> Tensor:
        settings, context = self.settings, batch.extras[CONTEXT][:, 0]
        if self._finished < settings.relation_after:
            return context.new_zeros(())
        of_task, (moved, known) = self._of_task(batch), self._moved(batch)
        means, present = losses.task_means(context, of_task)
        loss = losses.relation(
            losses.consistency(context, of_task @ moved),
            losses.diversity(
                torch.where(present[:, None], means, moved), known, settings.kernel_sharpness
            ),
            (settings.consistency_weight, settings.diversity_weight),
            settings.diversity_below,
        )
        enough = 2 * present.sum() >= known.sum()
        return torch.where(enough, loss, torch.zeros_like(loss))

    def extra_state(self) -> dict[str, Tensor]:
        return {
            "policy_task_means": self._task_means.clone(),
            "policy_tasks_known": self._tasks_known.clone(),
            "finished_steps": torch.tensor(self._finished),
        }

    def restore_extra(self, tensors: Mapping[str, Tensor]) -> None:
        self._task_means = tensors["policy_task_means"].clone()
        self._tasks_known = tensors["policy_tasks_known"].clone()
        self._finished = int(tensors["finished_steps"])


METHOD = Method(
    name="escp",
    title="ESCP",
    summary="SAC on a context of the newest steps that tells tasks apart; their numbers are known "
    "in training",
    source=ESCP_SOURCE,
    learner=ESCPLearner,
    settings=ESCPSettings,
    network=RecentNetwork,
    encoder="gru",
    preset=presets(ESCP, {**SMALL, "batch_transitions": 64, "relation_after": 1000}),
    spaces=("Box",),
    figures=("table-gravity", "fig-gravity"),
)
