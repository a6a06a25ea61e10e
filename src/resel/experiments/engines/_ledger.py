"""What is done about runs that end, the same for every engine.

Exit code 0 with a complete run directory is done, as is a complete one whose process was lost; 3 is
a run that diverged, which is a result; 2 is one that was refused, which it would be again; any
other end is tried again. Attempts count only while a run saves nothing new, so that being moved
around by a scheduler never uses them up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from resel.experiments.engines._state import FINISHED, Status, read_state
from resel.experiments.plan import Job
from resel.runs import is_in_use

ATTEMPTS = 3
_DIVERGED, _REFUSED = 3, 2
_WAITS = (0.0, 2.0, 10.0, 60.0)
"""Seconds before the next attempt: a killed run's process may still be saving."""


@dataclass
class Entry:
    """One job and what has happened to it in this process."""

    job: Job
    status: Status
    attempts: int = 0
    saved: int = 0
    """Newest checkpoint when the last attempt began."""
    problem: str | None = None
    """Why the last attempt failed."""


@dataclass
class Ledger:
    """All jobs of a plan; engines tell it what starts and ends, and ask what is next."""

    entries: dict[Path, Entry]
    attempts: int = ATTEMPTS
    changed: Callable[[Entry], None] = field(default=lambda entry: None)
    """Called whenever a job changes its status."""

    @classmethod
    def of(
        cls,
        jobs: Sequence[Job],
        attempts: int = ATTEMPTS,
        changed: Callable[[Entry], None] = lambda entry: None,
    ) -> Ledger:
        """Reads every run directory: what is finished there is not begun again."""
        entries = {job.run: Entry(job, read_state(job).status) for job in jobs}
        return cls(entries, attempts, changed)

    def waiting(self) -> list[Job]:
        """Jobs that nobody works on, in the order of the plan."""
        return [entry.job for entry in self.entries.values() if entry.status == "waiting"]

    def count(self, *statuses: Status) -> int:
        """How many jobs are in one of these states."""
        return sum(entry.status in statuses for entry in self.entries.values())

    def held(self, job: Job) -> bool:
        """Whether somebody else writes to the run, such as what a killed sweep left behind."""
        if not is_in_use(job.run):
            return False
        if self.entries[job.run].problem is None:
            self.told(job, "in use by another process")
        return True

    def told(self, job: Job, problem: str) -> None:
        """Something a person should know about a job, whose status stays as it is."""
        entry = self.entries[job.run]
        entry.problem = problem
        self.changed(entry)

    def started(self, job: Job) -> None:
        """An attempt begins."""
        entry = self.entries[job.run]
        saved = read_state(job).saved
        if saved > entry.saved:  # by a process that was lost, and saved after we had noticed
            entry.attempts = 0
        entry.saved = saved
        entry.status, entry.problem = "running", None
        self.changed(entry)

    def ended(self, job: Job, code: int | None, problem: str = "") -> float:
        """An attempt is over; `code` is None if its process was lost. Seconds to wait, if again."""
        entry = self.entries[job.run]
        state = read_state(job)
        if state.status in FINISHED and code in (None, 0, _DIVERGED):
            entry.status, entry.problem = state.status, None
            self.changed(entry)
            return 0.0
        entry.attempts = 1 if state.saved > entry.saved else entry.attempts + 1
        entry.problem = problem or f"exit code {code}, but no finished run in {job.run}"
        given_up = code == _REFUSED or entry.attempts >= self.attempts
        entry.status = "failed" if given_up else "waiting"
        self.changed(entry)
        return _WAITS[min(entry.attempts, len(_WAITS) - 1)]

    def unwanted(self, job: Job) -> bool:
        """Whether a job that is running should save and leave: nobody needs it any more."""
        return False

    def stopped(self, job: Job) -> None:
        """An attempt was ended by us: it does not count."""
        self.entries[job.run].status = read_state(job).status
