"""Attempts at solving a task, each a process of its own: what they took, and how far they came."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from resel._process import LAUNCHER
from resel.agent import configure
from resel.analysis.runs import lines_so_far, points, result_so_far
from resel.benchmarks._calls import call

RECURRENT_PPO = "recurrent-ppo"
_PATIENCE = 5
"""An on-policy method may take so many times the steps."""
_REFUSED = 2
"""The exit code of a command that cannot do what was asked."""

End = Literal["solved", "limit", "diverged", "failed"]


@dataclass(frozen=True)
class Variant:
    """Who tries, and with which of the settings that are tried in turn; None is the preset's."""

    method: str
    updates_per_step: float | None = None
    num_envs: int | None = None
    eval_parallel: bool | None = None

    def __str__(self) -> str:
        words = []
        if self.updates_per_step is not None:
            words.append(f"{self.updates_per_step:g} updates a step")
        if self.num_envs is not None:
            words.append(f"{self.num_envs} envs")
        if self.eval_parallel is not None:
            words.append("eval_parallel" if self.eval_parallel else "no eval_parallel")
        return f"{self.method} ({', '.join(words)})" if words else self.method

    def folder(self, task: str, seed: int) -> str:
        """What a run directory of it is called."""
        name = f"{task}-{self.method}-{seed}"
        if self.updates_per_step is not None:
            name += f"-{self.updates_per_step:g}"
        if self.num_envs is not None:
            name += f"-{self.num_envs}-envs"
        if self.eval_parallel is not None:
            name += "-eval-parallel" if self.eval_parallel else "-no-eval-parallel"
        return name

    def flags(self) -> list[str]:
        """For `resel train`."""
        words = ["--method", self.method]
        if self.updates_per_step is not None:
            words += ["--updates-per-step", str(self.updates_per_step)]
        if self.num_envs is not None:
            words += ["--num-envs", str(self.num_envs)]
        if self.eval_parallel is not None:
            words.append("--eval-parallel" if self.eval_parallel else "--no-eval-parallel")
        return words


@dataclass(frozen=True)
class Attempt:
    """One run: whether it solved the task, what it took to its end, and how far it came."""

    task: str
    method: str
    seed: int
    threshold: float
    solved: bool
    steps: int
    minutes: float
    processor_minutes: float
    last_return: float | None
    """Of the last evaluation; None if there was none, or if it was not finite."""
    updates_per_step: float | None = None
    """As it was asked for; None is the preset's."""
    best_return: float | None = None
    num_envs: int | None = None
    eval_parallel: bool | None = None
    ended: End = "limit"
    """At its limit of steps, if not by solving the task or by a fault."""
    fault: str | None = None
    """Why it diverged or failed."""

    @property
    def variant(self) -> Variant:
        """Who tried."""
        return Variant(self.method, self.updates_per_step, self.num_envs, self.eval_parallel)

    def __str__(self) -> str:
        """One line for whoever waits."""
        after = f"{self.steps:,} steps and {self.minutes:.1f} minutes"
        said = {
            "solved": f"solved after {after}",
            "limit": f"not solved within {after}",
            "diverged": f"diverged after {after}",
            "failed": f"failed after {after}",
        }[self.ended]
        last = "not finite" if self.last_return is None else f"{self.last_return:.4g}"
        best = self.best_return
        came = "no evaluation" if best is None else f"last return {last}, best {best:.4g}"
        why = "" if self.fault is None else f" ({self.fault.splitlines()[-1]})"
        who = f"{self.task}, {self.variant}, seed {self.seed}"
        return f"{who}: {said}; {came}, threshold {self.threshold:g}{why}"


def train(
    task: str, variant: Variant, seed: int, threshold: float, path: Path, flags: dict[str, Any]
) -> Attempt:
    """A run of ours; one that is kept in `path` goes on from there."""
    given = {"seed": seed, "stop-return": threshold, **flags}
    words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    command = [*LAUNCHER, "train", task, *variant.flags(), *words]
    before = _changed_at(path)
    done = call([*command, "--run-dir", str(path), "--resume", "auto"])
    told = done.code == 0 or _changed_at(path) != before  # or the result is an earlier process's
    result = result_so_far(path) if told else {}
    lines = lines_so_far(path) if told or done.code != _REFUSED else []
    returns = points(lines, "eval", "return_mean")[1]
    held = result.get("held_return")  # of a run that is kept, perhaps of a lower threshold
    solved = held is not None and held >= threshold
    status = result.get("status")
    unsolved: End = "diverged" if status == "diverged" else "failed" if done.code else "limit"
    return Attempt(
        task,
        variant.method,
        seed,
        threshold,
        solved=solved,
        steps=result.get("steps", int(lines[-1]["step"]) if lines else 0),
        minutes=result.get("wall_seconds", done.seconds) / 60,
        processor_minutes=result.get("cpu_seconds", done.processor_seconds) / 60,
        last_return=_highest(returns[-1:]),
        updates_per_step=variant.updates_per_step,
        best_return=_highest(returns),
        num_envs=variant.num_envs,
        eval_parallel=variant.eval_parallel,
        ended="solved" if solved else unsolved,
        fault=str(result.get("fault") or done.fault) if done.code else None,
    )


def train_recurrent_ppo(
    task: str, seed: int, threshold: float, path: Path, steps: int | None, threads: int
) -> Attempt:
    """RecurrentPPO of sb3-contrib; one that has come to its end in `path` is taken from there if
    the same was asked of it."""
    training = configure(task).training
    asked = {
        "threshold": threshold,
        "steps": steps or _PATIENCE * training.steps,
        "eval_every": training.eval_every,
        "eval_episodes": training.eval_episodes,
        "threads": max(threads, 1),
    }
    path.mkdir(parents=True, exist_ok=True)
    kept = path / "attempt.json"
    found = _kept(kept, asked)
    if found is None:
        worker = (sys.executable, "-m", "resel.benchmarks._recurrent_ppo", task, str(seed))
        done = call([*worker, *map(str, asked.values())])
        if done.code:
            took = (done.seconds / 60, done.processor_seconds / 60)
            return Attempt(
                *(task, RECURRENT_PPO, seed, threshold, False, 0, *took, None),
                ended="failed",
                fault=done.fault,
            )
        found = json.loads(done.said.splitlines()[-1])
        kept.write_text(json.dumps({"asked": asked, "found": found}) + "\n", encoding="utf-8")
    if found["last_return"] is not None:  # there was an evaluation
        found["last_return"] = _highest([found["last_return"]])
    ended: End = "solved" if found["solved"] else "limit"
    return Attempt(task, RECURRENT_PPO, seed, threshold, **found, ended=ended)


def _kept(path: Path, asked: dict[str, Any]) -> dict[str, Any] | None:
    """What an attempt found of which the same was asked; older ones do not say what that was."""
    try:
        kept = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, ValueError):  # there is none, or not the whole of it
        return None
    return kept["found"] if kept.get("asked") == asked else None


def _changed_at(path: Path) -> int | None:
    """When the result of a run was written."""
    try:
        return (path / "result.json").stat().st_mtime_ns
    except OSError:
        return None


def _highest(returns: Sequence[float]) -> float | None:
    """Of those that are numbers."""
    return max(filter(math.isfinite, returns), default=None)
