"""How far a run has got, read from its directory: the only place that counts."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from resel.errors import DamagedFileError, RunDirectoryError
from resel.experiments.plan import Job
from resel.runs import RunDirectory

Status = Literal["waiting", "running", "completed", "diverged", "failed"]
FINISHED: frozenset[Status] = frozenset({"completed", "diverged"})

_TAIL = 64_000
_CHECKPOINT = re.compile(r"step-(\d+)")


@dataclass(frozen=True)
class RunState:
    """What the directory of a run says."""

    status: Status
    step: int
    saved: int = 0
    """Step of the newest checkpoint."""
    evaluation: float | None = None
    """Mean return of the last evaluation."""


def read_state(job: Job) -> RunState:
    """The state of a run that may be going on, be half written, or not be there at all."""
    result = _result(job.run)
    saved = _saved_step(job.run)
    step, evaluation = _last_lines(job.run / "metrics.jsonl")
    if result is not None:
        ended, status = int(result.get("steps", step)), result.get("status")
        if status == "diverged":
            return RunState("diverged", ended, saved, evaluation)
        if status == "completed" and ended >= job.steps:
            return RunState("completed", ended, saved, evaluation)
    return RunState("waiting", max(step, saved), saved, evaluation)


def is_finished(job: Job) -> bool:
    """Whether nothing is left to do: a run that diverged is a result as well."""
    return read_state(job).status in FINISHED


def _result(run: Path) -> dict[str, Any] | None:
    try:
        return RunDirectory.open(run, read_only=True).read_result()
    except (RunDirectoryError, DamagedFileError):  # the command itself tells what is wrong there
        return None


def _saved_step(run: Path) -> int:
    try:
        names = [path.name for path in (run / "checkpoints").iterdir()]
    except OSError:
        return 0
    found = [int(match[1]) for name in names if (match := _CHECKPOINT.fullmatch(name))]
    return max(found, default=0)


def _last_lines(metrics: Path) -> tuple[int, float | None]:
    """Step and evaluation of the newest lines; only the end is read, as this is done often."""
    try:
        with metrics.open("rb") as stream:
            stream.seek(max(0, metrics.stat().st_size - _TAIL))
            lines = stream.read().split(b"\n")[:-1]
    except OSError:
        return 0, None
    step, evaluation = 0, None
    for line in reversed(lines):
        try:
            record = json.loads(line)
            step = max(step, int(record["step"]))
            if record["kind"] == "eval":
                return step, float(record["return_mean"])
        except (ValueError, KeyError, TypeError):  # cut off at the front of what was read
            continue
    return step, evaluation
