"""How far a run has got, read from its directory: the only place that counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from resel.analysis.runs import last_recorded, outcome_of, result_so_far, saved_step
from resel.experiments.plan import Job

Status = Literal["waiting", "running", "completed", "diverged", "failed"]
FINISHED: frozenset[Status] = frozenset({"completed", "diverged"})


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
    if job.ended is not None:
        return RunState(job.ended, job.steps)
    result, saved = result_so_far(job.run), saved_step(job.run)
    step, evaluation = last_recorded(job.run)
    outcome = outcome_of(result, job.steps)
    if outcome is not None:
        return RunState(outcome, int(result.get("steps", step)), saved, evaluation)
    return RunState("waiting", max(step, saved), saved, evaluation)


def is_finished(job: Job) -> bool:
    """Whether nothing is left to do: a run that diverged is a result as well."""
    return read_state(job).status in FINISHED
