"""What is on the disk: every run under a folder, or the reason why it cannot be read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resel.analysis.runs import RunRecord, is_run, read_run
from resel.errors import DamagedFileError, ReselError


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
