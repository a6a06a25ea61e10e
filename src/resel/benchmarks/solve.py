"""`resel bench solve`: steps, minutes and processor time until a task is solved.

A task is solved once three evaluations in a row reach its threshold. Every run is a process of its
own with a run directory; what is finished is not run again. RecurrentPPO of sb3-contrib, where that
is installed, is measured on the same environments by the same evaluations.
"""

from __future__ import annotations

import csv
import itertools
import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from rich.table import Table

from resel.analysis.paper import paper_threshold
from resel.benchmarks._attempts import (
    RECURRENT_PPO,
    Attempt,
    Variant,
    train,
    train_recurrent_ppo,
)
from resel.benchmarks._base import Bench, Result, number_table, short
from resel.config import Count
from resel.errors import ConfigError, MissingDependencyError, ReselError
from resel.methods import get_method
from resel.tasks import declared_horizon, get_task


@dataclass(frozen=True)
class SolveBench(Bench):
    """Train until tasks are solved: steps, minutes and processor time."""

    name: ClassVar[str] = "solve"

    threads: Count = 1
    """CPU threads of a run; 0 takes as many as `resel train` would."""
    repetitions: Count = 3
    """Seeds, one after another."""
    first_seed: Count = 1
    """The first of them."""
    tasks: tuple[str, ...] = ("Pendulum-V-v0", "popgym-RepeatPreviousEasy-v0", "CartPole-P-v0")
    """What is to be solved."""
    methods: tuple[str, ...] = ("resel",)
    """By whom: see `resel methods`; recurrent-ppo is that of sb3-contrib, if it is installed."""
    encoder: str | None = None
    """The context encoder of methods that have one; None takes the preset's."""
    steps: Count | None = None
    """Where an attempt ends unsolved; None takes the task's own, for recurrent-ppo five times."""
    updates_per_step: tuple[float, ...] = ()
    """Each task with each of these, to see what steps and minutes they cost; none takes the
    preset's."""
    num_envs: tuple[Count, ...] = ()
    """Each task with each of these numbers of environments; none takes the preset's."""
    eval_parallel: tuple[bool, ...] | None = None
    """Evaluations are played beside learning; `True False` tries each task both ways."""
    threshold: float | None = None
    """The return that counts as solved; None takes the task's own, for a task of the paper 90 % of
    what RESeL reaches there."""
    runs: Path | None = None
    """Where run directories are kept, and taken up again if the measurement was interrupted."""

    @property
    def when_stopped(self) -> str:
        if self.runs is None:
            return super().when_stopped
        return f"Stopped; the same command goes on with the runs in {self.runs}."

    def measure(self) -> Result:
        for task in self.tasks:
            declared_horizon(task)  # refuses unknown names with near matches
        wanted = {task: self._threshold(task) for task in self.tasks}
        self._check_methods()
        seeds = range(self.first_seed, self.first_seed + self.repetitions)
        planned = list(itertools.product(wanted.items(), seeds, self._variants()))
        attempts: list[Attempt] = []
        with _folder(self.runs) as folder:
            for (task, threshold), seed, variant in planned:
                found = self._attempt(task, threshold, seed, variant, folder)
                attempts.append(found)
                print(f"[{len(attempts)} of {len(planned)}] {found}", file=sys.stderr, flush=True)
        if not any(attempt.steps for attempt in attempts):
            raise ReselError(f"No attempt took a step. The first: {attempts[0].fault}")
        return {"attempts": [asdict(attempt) for attempt in attempts]}

    def _variants(self) -> list[Variant]:
        """Methods, each with all combinations of what it can have."""
        beside = (True,) if self.eval_parallel == () else self.eval_parallel
        return [
            Variant(method, *chosen)
            for method in self.methods
            for chosen in itertools.product(
                (self.updates_per_step if _has_pace(method) else ()) or (None,),
                (self.num_envs if method != RECURRENT_PPO else ()) or (None,),
                (beside if method != RECURRENT_PPO else ()) or (None,),
            )
        ]

    def _attempt(
        self, task: str, threshold: float, seed: int, variant: Variant, folder: Path
    ) -> Attempt:
        path = folder / variant.folder(task, seed)
        if variant.method == RECURRENT_PPO:
            return train_recurrent_ppo(task, seed, threshold, path, self.steps, self.threads)
        flags: dict[str, Any] = {"threads": self.threads}
        if self.encoder is not None and get_method(variant.method).encoder is not None:
            flags["encoder"] = self.encoder
        if self.steps is not None:
            flags["steps"] = self.steps
        return train(task, variant, seed, threshold, path, flags)

    def tables(self, result: Result) -> list[Table]:
        attempts = [Attempt(**attempt) for attempt in result["attempts"]]
        table = number_table(
            "Until three evaluations in a row reach the threshold (medians)",
            *("threshold", "solved", "steps", "minutes", "cpu minutes", "best", "last"),
        )
        for (task, variant), group in _grouped(attempts).items():
            table.add_row(f"{task}, {variant}", *_row(group))
        return [table]

    def write(self, result: Result, folder: Path) -> list[Path]:
        path = folder / "solve.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(Attempt.__dataclass_fields__))
            writer.writeheader()
            writer.writerows(result["attempts"])
        return [*super().write(result, folder), path]

    def _threshold(self, task: str) -> float:
        if self.threshold is not None:
            return self.threshold
        spec = get_task(task)
        known = None
        if spec is not None:
            known = paper_threshold(spec.id) if spec.threshold is None else spec.threshold
        if known is None:
            raise ConfigError(
                f"Nobody has said which return solves {task!r}: name it with --threshold."
            )
        return known

    def _check_methods(self) -> None:
        for method in self.methods:
            if method == RECURRENT_PPO:
                if find_spec("sb3_contrib") is None:
                    raise MissingDependencyError(
                        f"{RECURRENT_PPO} is that of sb3-contrib, which is not installed: "
                        "pip install sb3-contrib"
                    )
            else:
                get_method(method)


def _has_pace(method: str) -> bool:
    """Whether it learns step by step; on-policy methods learn when a rollout is full."""
    return method != RECURRENT_PPO and not get_method(method).learner.on_policy


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="resel-solve-") as made:
        yield Path(made)


def _grouped(attempts: Sequence[Attempt]) -> dict[tuple[str, Variant], list[Attempt]]:
    groups: dict[tuple[str, Variant], list[Attempt]] = {}
    for attempt in attempts:
        groups.setdefault((attempt.task, attempt.variant), []).append(attempt)
    return groups


def _row(group: Sequence[Attempt]) -> list[str]:
    """What it took; unsolved attempts count with all they took, so their medians are floors."""
    floor = "" if all(attempt.solved for attempt in group) else "> "
    solved = f"{sum(attempt.solved for attempt in group)} of {len(group)}"
    for end in ("diverged", "failed"):
        if count := sum(attempt.ended == end for attempt in group):
            solved += f", {count} {end}"
    middle = statistics.median
    return [
        f"{group[0].threshold:g}",
        solved,
        f"{floor}{middle(attempt.steps for attempt in group):,.0f}",
        f"{floor}{short(middle(attempt.minutes for attempt in group))}",
        f"{floor}{short(middle(attempt.processor_minutes for attempt in group))}",
        _middle(attempt.best_return for attempt in group),
        _middle(attempt.last_return for attempt in group),
    ]


def _middle(returns: Iterable[float | None]) -> str:
    """The median of those that there are."""
    there = [value for value in returns if value is not None]
    return f"{statistics.median(there):.4g}" if there else "-"
