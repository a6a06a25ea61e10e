"""Reading runs back: the one place that knows what a run directory tells, whole or not."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypeGuard

import numpy as np

from resel.config import Config
from resel.errors import DamagedFileError, RunDirectoryError
from resel.methods import run_label
from resel.runs import ENDED, RunDirectory, is_in_use, read_metrics
from resel.training import final_evaluations, learning_since

Points = tuple[list[int], list[float]]
"""Steps and values; a value may be NaN or infinite."""
Lines = Sequence[Mapping[str, Any]]
"""The records of a metrics.jsonl."""
Ended = Literal["completed", "diverged"]
"""How a run came to its end."""

# What changes neither the course of a run nor how its scores are measured.
WITHOUT_EFFECT = {"seed", "device", "threads", "log_every", "checkpoint_every"}
WITHOUT_EFFECT |= {"checkpoint_minutes", "env_workers", "env_timeout", "env_restarts"}
WITHOUT_EFFECT |= {"eval_parallel"}

_TAIL = 64_000


@dataclass(frozen=True)
class Start:
    """One of the times a run was started or continued."""

    at: datetime
    command: str


@dataclass(frozen=True)
class RunRecord:
    """One run, as far as it has come."""

    path: Path
    name: str
    """Its folder, relative to the one that was asked for."""
    config: Config
    environment: dict[str, Any]
    result: dict[str, Any]
    metrics: list[dict[str, Any]]
    is_running: bool = False
    """Whether a process writes to it; what an earlier one left as its result does not count."""

    @property
    def status(self) -> str:
        """How the run ended, or stands; one that was killed has no result."""
        return "running" if self.is_running else str(self.result.get("status", "no result yet"))

    @property
    def has_ended(self) -> bool:
        """Whether it has come to what it was to."""
        return self.status in ENDED

    @property
    def seed(self) -> int:
        return self.config.training.seed

    @property
    def label(self) -> str:
        """What it is called where it stands alone."""
        return f"{run_label(self.config)}, seed {self.seed}"

    @property
    def starts(self) -> list[Start]:
        """When and by which commands it was started, where that was recorded."""
        recorded = self.environment.get("starts")
        found = []
        for entry in recorded if isinstance(recorded, list) else []:
            try:
                found.append(Start(datetime.fromisoformat(entry["at"]), str(entry["command"])))
            except (LookupError, TypeError, ValueError):
                continue
        return found

    def lines(self, kind: str) -> list[dict[str, Any]]:
        """The records of one kind, in the order they were written."""
        return [line for line in self.metrics if line.get("kind") == kind]

    def points(self, kind: str, key: str) -> Points:
        """One number against the steps, where it was recorded."""
        return points(self.metrics, kind, key)

    def keys(self, kind: str) -> list[str]:
        """The names of the numbers recorded under a kind, in the order of their appearance."""
        seen: dict[str, None] = {}
        for line in self.lines(kind):
            seen.update((key, None) for key, value in line.items() if is_number(value))
        return [key for key in seen if key != "step"]

    @property
    def steps(self) -> int:
        """The step the run has got to: its end may lie after the last record."""
        ended = self.result.get("steps")
        recorded = max(int(line["step"]) for line in self.metrics)
        return max(ended, recorded) if isinstance(ended, int) else recorded

    @property
    def final_return(self) -> float | None:
        """The final score, or the same mean over the evaluations so far."""
        if "eval_return_mean" in self.result:
            score = self.result["eval_return_mean"]
            return float(score) if is_number(score) else None
        seen = zip(*self.points("eval", "return_mean"), strict=True)
        return final_score(seen, learned_since(self.metrics))

    @property
    def success_rate(self) -> float | None:
        """That of the last evaluation, where the task tells."""
        rates = self.points("eval", "success_rate")[1]
        return rates[-1] if rates else None

    @property
    def adaptation_steps(self) -> int | None:
        """Steps before the episodes of the last evaluation, of a method that adapts to a task."""
        steps = self.points("eval", "adaptation_steps")[1]
        return int(steps[-1]) if steps else None

    @property
    def seconds(self) -> float | None:
        """Time the run has taken."""
        if is_number(self.result.get("wall_seconds")):
            return float(self.result["wall_seconds"])
        taken = self.points("timing", "seconds")[1]
        return taken[-1] if taken else None

    @property
    def updates_per_second(self) -> float | None:
        """The mean since learning has begun; where too little was recorded, that of the whole run.

        The record in which it begins is left out: it is in part the warm-up's, and kernels are
        compiled then. Records may be of different lengths, and one without updates counts as well.
        """
        lines = self.lines("timing")
        lines = [ln for ln in lines if is_number(ln.get("updates_per_second"))]
        begun = next((i for i, ln in enumerate(lines) if ln["updates_per_second"] > 0), len(lines))
        total = elapsed = 0.0
        for before, line in itertools.pairwise(lines[begun:]):
            seconds = max(float(line["seconds"]) - float(before["seconds"]), 0.0)
            total, elapsed = total + line["updates_per_second"] * seconds, elapsed + seconds
        if elapsed:
            return float(total / elapsed)
        updates = self.result.get("updates")
        return updates / self.seconds if self.seconds and is_number(updates) and updates else None

    def first_broken(self) -> tuple[int, list[str]] | None:
        """The first step at which a recorded number was not finite, and the names of those."""
        for line in self.metrics:
            broken = [k for k, v in line.items() if isinstance(v, float) and not math.isfinite(v)]
            if broken:
                return int(line["step"]), broken
        return None


def read_run(path: str | Path, name: str = "") -> RunRecord:
    """A run that may still be going on; a fault of its files is an error that says which."""
    run = RunDirectory.open(path, read_only=True)
    config = Config.from_json(run.read_config())
    if not run.metrics_path.is_file():
        raise RunDirectoryError(f"The run in {run.path} has no metrics.jsonl: it never started.")
    metrics = read_metrics(run.metrics_path)
    if not metrics:
        raise RunDirectoryError(f"The run in {run.path} has recorded nothing yet.")
    running = is_in_use(run.path)
    environment, result = run.read_environment() or {}, {} if running else run.read_result() or {}
    name = name or run.path.name
    return RunRecord(run.path, name, config, environment, result, metrics, running)


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run, whole or not; saved agents and checkpoints are none."""
    if (folder / "manifest.json").exists():
        return False
    return any((folder / name).exists() for name in ("config.json", "metrics.jsonl"))


def settings_of(config: Config) -> dict[str, Any]:
    """All that runs have in common which differ only in their seed, or in where they ran."""
    kept = {name: value for name, value in config.flat().items() if name not in WITHOUT_EFFECT}
    return {"task": config.task, "method": config.method, **kept}


def settings_key(config: Config) -> str:
    """The same for runs that have all of these in common."""
    return json.dumps(settings_of(config), sort_keys=True)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a recorded value can be drawn; NaN and the infinities are numbers too."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def points(lines: Lines, kind: str, key: str) -> Points:
    """One number of the records of a kind against their steps, where it was recorded."""
    chosen = [line for line in lines if line.get("kind") == kind and is_number(line.get(key))]
    return [int(line["step"]) for line in chosen], [float(line[key]) for line in chosen]


def learned_since(lines: Lines) -> int | None:
    """The step of the first evaluation of a policy that had learned; None if there is none."""
    evaluations = (line for line in lines if line.get("kind") == "eval")
    return learning_since((int(line["step"]), line.get("updates")) for line in evaluations)


def final_score(evaluations: Iterable[tuple[int, float]], since: int | None) -> float | None:
    """The mean of the last evaluations (step, score), as in result.json; None if none counts."""
    last = final_evaluations(evaluations, since)
    return float(np.mean([score for _, score in last])) if last else None


# What can be asked about a run at any moment: it may be half written, or not be there at all.


def lines_so_far(path: Path) -> Lines:
    """The records of a run; none if they cannot be read."""
    try:
        return read_metrics(path / "metrics.jsonl")
    except (RunDirectoryError, DamagedFileError):
        return []


def result_so_far(path: Path) -> dict[str, Any]:
    """How a run ended; nothing if it has no result, or none that can be read."""
    try:
        return RunDirectory.open(path, read_only=True).read_result() or {}
    except (RunDirectoryError, DamagedFileError):
        return {}


def outcome_of(result: Mapping[str, Any], steps: int) -> Ended | None:
    """What a run that was to take so many steps has come to, by its result; None if not yet."""
    status, taken = result.get("status"), result.get("steps")
    if status == "diverged":
        return "diverged"
    there = (is_number(taken) and taken >= steps) or result.get("held_return") is not None
    return "completed" if status in ENDED and there else None


def environment_so_far(path: Path) -> dict[str, Any]:
    """Where a run was made; nothing if that is not written, or cannot be read."""
    try:
        return RunDirectory.open(path, read_only=True).read_environment() or {}
    except (RunDirectoryError, DamagedFileError):
        return {}


def saved_step(path: Path) -> int:
    """The step of a run's newest checkpoint, 0 if there is none."""
    try:
        checkpoints = RunDirectory(path, None).checkpoints()
    except OSError:
        return 0
    return int(checkpoints[-1].name.removeprefix("step-")) if checkpoints else 0


def last_recorded(path: Path) -> tuple[int, float | None]:
    """A run's last step and evaluation; only the end is read, as this is asked often."""
    metrics = path / "metrics.jsonl"
    try:
        with metrics.open("rb") as stream:
            stream.seek(max(0, metrics.stat().st_size - _TAIL))
            lines = stream.read().split(b"\n")[:-1]
    except OSError:
        return 0, None
    step = 0
    for line in reversed(lines):
        try:
            record = json.loads(line)
            step = max(step, int(record["step"]))
            if record["kind"] == "eval":
                return step, float(record["return_mean"])
        except (ValueError, KeyError, TypeError):  # cut off at the front of what was read
            continue
    return step, None
