"""`resel bench solve`: steps, minutes and processor time until a task is solved.

A task is solved once three evaluations in a row reach its threshold. Every run is a process of its
own with a run directory; what is finished is not run again. RecurrentPPO of sb3-contrib, where that
is installed, is measured on the same environments by the same evaluations.
"""

from __future__ import annotations

import csv
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from rich.table import Table

from resel._process import LAUNCHER
from resel.agent import configure
from resel.analysis.runs import lines_so_far, points, result_so_far
from resel.benchmarks._base import Bench, Result, number_table, short
from resel.config import Count
from resel.errors import ConfigError, MissingDependencyError, ReselError, UnknownTaskError
from resel.methods import get_method
from resel.tasks import get_task

RECURRENT_PPO = "recurrent-ppo"
_PATIENCE = 5
"""An on-policy method may take so many times the steps."""


@dataclass(frozen=True)
class Attempt:
    """One run: whether it solved the task, and what it took to its end."""

    task: str
    method: str
    seed: int
    threshold: float
    solved: bool
    steps: int
    minutes: float
    processor_minutes: float
    last_return: float
    updates_per_step: float | None = None
    """As it was asked for; None is the preset's."""


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
    threshold: float | None = None
    """The return that counts as solved; None takes the task's own."""
    runs: Path | None = None
    """Where run directories are kept, and taken up again if the measurement was interrupted."""

    def measure(self) -> Result:
        wanted = {task: self._threshold(task) for task in self.tasks}
        self._check_methods()
        attempts = []
        with _folder(self.runs) as folder:
            for task, threshold in wanted.items():
                for seed in range(self.first_seed, self.first_seed + self.repetitions):
                    for method, pace in self._lines():
                        name = f"{task}-{method}-{seed}" + (f"-{pace:g}" if pace else "")
                        if method == RECURRENT_PPO:
                            found = self._ppo(task, seed, threshold, folder / name)
                        else:
                            found = self._train(task, method, seed, threshold, folder / name, pace)
                        attempts.append(found)
        return {"attempts": [asdict(attempt) for attempt in attempts]}

    def _lines(self) -> list[tuple[str, float | None]]:
        """Methods, each with every number of updates per step that it can have."""
        return [
            (method, pace)
            for method in self.methods
            for pace in (self.updates_per_step if _has_pace(method) else None) or (None,)
        ]

    def tables(self, result: Result) -> list[Table]:
        attempts = [Attempt(**attempt) for attempt in result["attempts"]]
        title = "Until three evaluations in a row reach the threshold (medians)"
        if self.updates_per_step:
            title += "; in brackets, updates per step"
        table = number_table(
            title, "threshold", "solved", "steps", "minutes", "cpu minutes", "last"
        )
        for (task, method, pace), group in _grouped(attempts).items():
            updates = "" if pace is None else f" ({pace:g})"
            table.add_row(f"{task}, {method}{updates}", *_row(group))
        return [table]

    def write(self, result: Result, folder: Path) -> list[Path]:
        path = folder / "solve.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(Attempt.__dataclass_fields__))
            writer.writeheader()
            writer.writerows(result["attempts"])
        return [*super().write(result, folder), path]

    def _threshold(self, task: str) -> float:
        spec = get_task(task)
        if self.threshold is not None:
            return self.threshold
        if spec is None or spec.threshold is None:
            raise (UnknownTaskError if spec is None else ConfigError)(
                f"Nobody has said which return solves {task!r}: name it with --threshold."
            )
        return spec.threshold

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

    def _train(
        self,
        task: str,
        method: str,
        seed: int,
        threshold: float,
        path: Path,
        updates_per_step: float | None,
    ) -> Attempt:
        chosen: dict[str, Any] = {"method": method}
        if self.encoder is not None and get_method(method).encoder is not None:
            chosen["encoder"] = self.encoder
        flags: dict[str, Any] = {
            **chosen,
            "seed": seed,
            "threads": self.threads,
            "stop-return": threshold,
        }
        if self.steps is not None:
            flags["steps"] = self.steps
        if updates_per_step is not None:
            flags["updates-per-step"] = updates_per_step
        words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
        _call([*LAUNCHER, "train", task, *words, "--run-dir", str(path), "--resume", "auto"])
        result = result_so_far(path)
        _steps, returns = points(lines_so_far(path), "eval", "return_mean")
        return Attempt(
            task,
            method,
            seed,
            threshold,
            solved=result.get("held_return") is not None,
            steps=result["steps"],
            minutes=result["wall_seconds"] / 60,
            processor_minutes=result["cpu_seconds"] / 60,
            last_return=returns[-1],
            updates_per_step=updates_per_step,
        )

    def _ppo(self, task: str, seed: int, threshold: float, path: Path) -> Attempt:
        path.mkdir(parents=True, exist_ok=True)
        result = path / "attempt.json"
        if not result.exists():
            training = configure(task).training
            limit = self.steps or _PATIENCE * training.steps
            words = (task, seed, threshold, limit, training.eval_every, training.eval_episodes)
            worker = (sys.executable, "-m", "resel.benchmarks._recurrent_ppo")
            said = _call([*worker, *map(str, words), str(max(self.threads, 1))])
            result.write_text(said.splitlines()[-1] + "\n", encoding="utf-8")
        found = json.loads(result.read_text("utf-8"))
        return Attempt(task, RECURRENT_PPO, seed, threshold, **found)


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


def _call(words: Sequence[str]) -> str:
    """Run a command; what it prints. What it says otherwise is shown only if it fails."""
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise ReselError(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


_Line = tuple[str, str, float | None]


def _grouped(attempts: Sequence[Attempt]) -> dict[_Line, list[Attempt]]:
    groups: dict[_Line, list[Attempt]] = {}
    for attempt in attempts:
        line = (attempt.task, attempt.method, attempt.updates_per_step)
        groups.setdefault(line, []).append(attempt)
    return groups


def _row(group: Sequence[Attempt]) -> list[str]:
    """What it took; unsolved attempts count with all they took, so their medians are floors."""
    floor = "" if all(attempt.solved for attempt in group) else "> "
    middle = statistics.median
    return [
        f"{group[0].threshold:g}",
        f"{sum(attempt.solved for attempt in group)} of {len(group)}",
        f"{floor}{middle(attempt.steps for attempt in group):,.0f}",
        f"{floor}{short(middle(attempt.minutes for attempt in group))}",
        f"{floor}{short(middle(attempt.processor_minutes for attempt in group))}",
        f"{middle(attempt.last_return for attempt in group):.4g}",
    ]
