"""Batches of methods that adapt to a task: their steps are drawn by task, or by trial.

A trial is some episodes of one task, in phases. The column `trial` tells the number of an episode's
trial and of its phase. Where there is no such column, all episodes are of one task.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from resel.data.buffer import ReplayBuffer
from resel.data.packing import Batch, pack
from resel.data.samplers import NewestEpisodes, SuitableRows, single_steps

TRIAL = "trial"
"""The column: (number of the trial, number of the phase)."""
TASK = "task"
CONTEXT = "is_context"
"""Column of a batch: whether a step is context."""
ADAPTED = "adapted"
"""Column of a batch: whether a row was played after the policy had adapted."""


@dataclass(frozen=True)
class StepsByTask:
    """Single steps of some tasks, drawn with replacement, and of each some steps as its context.

    The context is drawn from the newest `context_episodes` episodes of the first phase of a task,
    and does not count in losses. Rows are the steps of all tasks, then the contexts of all tasks.
    """

    tasks: int
    transitions: int
    context: int
    context_episodes: int

    def __str__(self) -> str:
        return (
            f"{self.tasks:,} tasks with {self.transitions:,} single steps and a context of "
            f"{self.context:,} each"
        )

    def draw(
        self, buffer: ReplayBuffer, rng: np.random.Generator, suitable_rows: SuitableRows
    ) -> Batch:
        every = np.arange(len(buffer))
        tasks, trials = buffer.told(TASK), buffer.told(TRIAL)
        task = np.zeros(len(every)) if tasks is None else tasks[:, 0]
        first = np.ones(len(every), np.bool_) if trials is None else trials[:, 1] == 0
        if not first.any():  # so old that the first phase has left the buffer
            first[:] = True
        steps, contexts = [], []
        for number in rng.choice(np.unique(task[first]), size=self.tasks):
            of_task = every[task == number]
            newest = every[(task == number) & first][-self.context_episodes :]
            steps.append(buffer.sample_steps(self.transitions, rng, of_task))
            contexts.append(buffer.sample_steps(self.context, rng, newest))
        at, ended = (np.concatenate(parts) for parts in zip(*steps, *contexts, strict=True))
        batch, count = single_steps(buffer, at, ended), self.tasks * self.transitions
        context = (torch.arange(len(at)) >= count)[:, None].expand(-1, 2)  # (rows, 2)
        return dataclasses.replace(
            batch,
            terminated=batch.terminated.masked_fill(context, 0),
            mask=batch.mask & ~context,
            steps=count,
            extras={**batch.extras, CONTEXT: context.float()[..., None]},
        )


@dataclass(frozen=True)
class NewestTrials:
    """The newest trials of two phases, two rows each: all first phases, then all second ones."""

    trials: int
    steps: int
    """Of these trials together."""

    def __str__(self) -> str:
        return f"the newest {self.trials:,} trials, together {self.steps:,} steps"

    def draw(
        self, buffer: ReplayBuffer, rng: np.random.Generator, suitable_rows: SuitableRows
    ) -> Batch:
        told = buffer.told(TRIAL)
        rows = [] if told is None else self._rows(told.astype(np.int64))
        if not rows:
            return NewestEpisodes(self.steps).draw(buffer, rng, suitable_rows)
        pieces = list(buffer)
        used = [i for row in rows for i in row]
        places = {number: place for place, number in enumerate(used)}
        layout = [[places[i] for i in row] for row in rows]
        batch = pack(buffer, [pieces[i] for i in used], layout)
        adapted = torch.arange(len(rows)) >= len(rows) // 2
        column = adapted.float()[:, None, None].expand(*batch.mask.shape, 1)
        return dataclasses.replace(batch, extras={**batch.extras, ADAPTED: column})

    def _rows(self, told: NDArray[np.int64]) -> list[list[int]]:
        """The episodes of each row, counted from the oldest, of trials with both phases."""
        by_phase = [told[told[:, 1] == phase, 0] for phase in (0, 1)]
        whole = np.intersect1d(*by_phase)[-self.trials :]
        return [
            np.flatnonzero((told[:, 0] == number) & (told[:, 1] == phase)).tolist()
            for phase in (0, 1)
            for number in whole
        ]
