"""What is on the disk: every run under a folder, or the reason why it cannot be read."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from resel.config import Config
from resel.errors import DamagedFileError, ReselError, RunDirectoryError
from resel.runs import RunDirectory, read_metrics
from resel.training import final_evaluations

Points = tuple[list[int], list[float]]
"""Steps and values; a value may be NaN or infinite."""


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

    @property
    def status(self) -> str:
        """How the run ended; a run that goes on or was killed has no result."""
        return str(self.result.get("status", "no result yet"))

    @property
    def seed(self) -> int:
        return self.config.training.seed

    def lines(self, kind: str) -> list[dict[str, Any]]:
        """The records of one kind, in the order they were written."""
        return [line for line in self.metrics if line.get("kind") == kind]

    def points(self, kind: str, key: str) -> Points:
        """One number against the steps, where it was recorded."""
        found = [(line["step"], line[key]) for line in self.lines(kind) if is_number(line.get(key))]
        return [int(step) for step, _ in found], [float(value) for _, value in found]

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
        """The final figure, or the same mean over the evaluations so far."""
        if "eval_return_mean" in self.result:
            figure = self.result["eval_return_mean"]
            return float(figure) if is_number(figure) else None
        last = final_evaluations(zip(*self.points("eval", "return_mean"), strict=True))
        return float(np.mean([value for _, value in last])) if last else None

    @property
    def success_rate(self) -> float | None:
        """That of the last evaluation, where the task tells."""
        rates = self.points("eval", "success_rate")[1]
        return rates[-1] if rates else None

    @property
    def seconds(self) -> float | None:
        """Time the run has taken."""
        if is_number(self.result.get("wall_seconds")):
            return float(self.result["wall_seconds"])
        taken = self.points("timing", "seconds")[1]
        return taken[-1] if taken else None

    @property
    def updates_per_second(self) -> float | None:
        """The median of what was recorded once learning had begun, or that of the whole run."""
        rates = [rate for rate in self.points("timing", "updates_per_second")[1] if rate > 0]
        if rates:
            return float(np.median(rates))
        updates = self.result.get("updates")
        return updates / self.seconds if self.seconds and is_number(updates) and updates else None

    def first_broken(self) -> tuple[int, list[str]] | None:
        """The first step at which a recorded number was not finite, and the names of those."""
        for line in self.metrics:
            broken = [k for k, v in line.items() if isinstance(v, float) and not math.isfinite(v)]
            if broken:
                return int(line["step"]), broken
        return None


@dataclass(frozen=True)
class Failure:
    """A folder or file that looks like part of a run and cannot be used."""

    name: str
    reason: str


@dataclass(frozen=True)
class Member:
    """A run of an experiment."""

    path: Path
    label: str
    """The method's name; empty if the experiment gives none."""
    problem: str
    """What the experiment says about it, should there be no run."""


@dataclass(frozen=True)
class Experiment:
    """An experiment.json; none of its entries is certain to be there."""

    path: Path
    """The folder it lies in."""
    data: Mapping[str, Any]

    @property
    def title(self) -> str:
        return str(self.data.get("title") or self.data.get("name") or self.path.name)

    @property
    def members(self) -> list[Member]:
        """The runs it lists, which may lie in other folders and belong to other experiments too."""
        listed = self.data.get("runs")
        entries = listed if isinstance(listed, list) else []
        return [self._member(e) for e in entries if isinstance(e, dict) and e.get("path")]

    def _member(self, entry: Mapping[str, Any]) -> Member:
        path = Path(os.path.normpath(self.path / str(entry["path"])))
        panel = entry.get("panel")
        parts = (
            entry.get("label"),
            None if panel == entry.get("task") else panel,
            entry.get("x"),  # along the axis of a figure of final values
        )
        label = [str(part) for part in parts if part not in (None, "")]
        return Member(path, ", ".join(label), str(entry.get("problem") or ""))


@dataclass(frozen=True)
class Collection:
    """Everything found under a folder."""

    runs: list[RunRecord]
    failures: list[Failure]
    experiments: list[Experiment]


def is_number(value: object) -> bool:
    """Whether a recorded value can be drawn; NaN and the infinities are numbers too."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run, whole or not; saved agents and checkpoints are none."""
    if (folder / "manifest.json").exists():
        return False
    return any((folder / name).exists() for name in ("config.json", "metrics.jsonl"))


def read_run(path: Path, name: str) -> RunRecord:
    """A run that may still be going on; a fault of its files is an error that says which."""
    run = RunDirectory.open(path, read_only=True)
    config = Config.from_json(run.read_config())
    if not run.metrics_path.is_file():
        raise RunDirectoryError(f"The run in {path} has no metrics.jsonl: it never started.")
    metrics = read_metrics(run.metrics_path)
    if not metrics:
        raise RunDirectoryError(f"The run in {path} has recorded nothing yet.")
    environment, result = run.read_environment() or {}, run.read_result() or {}
    return RunRecord(path, name, config, environment, result, metrics)


def collect(folder: Path) -> Collection:
    """Read all runs under a folder, at any depth, and those that its experiments list elsewhere."""
    experiments, failures = _read_experiments(folder)
    paths = dict.fromkeys(_find(folder, "config.json", "metrics.jsonl"), "")
    for member in (member for experiment in experiments for member in experiment.members):
        paths.setdefault(member.path, member.problem)
    runs: list[RunRecord] = []
    for path, problem in sorted(paths.items()):
        name = _relative(path, folder)
        if not is_run(path):
            failures.append(Failure(name, _why_missing(path, problem)))
            continue
        try:
            runs.append(read_run(path, name))
        except ReselError as error:
            failures.append(Failure(name, str(error)))
    return Collection(runs, failures, experiments)


def _why_missing(run: Path, problem: str) -> str:
    if run.parent.is_dir():
        return f"experiment.json lists this run, and there is none yet. {problem}".strip()
    return (
        f"experiment.json lists this run in {run.parent}, which is not there: copy it along with "
        "the experiment's folder, or report on the place where both are."
    )


def _find(folder: Path, *names: str) -> Iterator[Path]:
    """Folders with one of these files, not looking inside runs, agents and hidden folders."""
    for root, inner, files in os.walk(folder):
        here = Path(root)
        if is_run(here) or "manifest.json" in files:
            inner.clear()
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        if "manifest.json" not in files and any(name in files for name in names):
            yield here


def _read_experiments(folder: Path) -> tuple[list[Experiment], list[Failure]]:
    experiments, failures = [], []
    for path in _find(folder, "experiment.json"):
        file = path / "experiment.json"
        try:
            experiments.append(Experiment(path, _read_object(file)))
        except ReselError as error:
            failures.append(Failure(_relative(file, folder), str(error)))
    return experiments, failures


def _read_object(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DamagedFileError(f"{path} cannot be read as JSON ({error}).") from error
    if not isinstance(data, dict):
        raise DamagedFileError(f"{path} does not hold a JSON object.")
    return data


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()
