"""When a run saves itself: by its steps, by the clock, and once it has begun to learn."""

from __future__ import annotations

import time
from pathlib import Path

from resel.config import TrainingConfig
from resel.errors import ReselError
from resel.runs.bundle import read_document


class CheckpointsDue:
    """Says when a checkpoint is due.

    Those due by steps are the same in every course of a run, so a run that has diverged goes back
    to one of them only. The others depend on the clock and are there to be resumed from.
    """

    def __init__(self, settings: TrainingConfig, updates: int) -> None:
        self._every, self._seconds = settings.checkpoint_every, 60 * settings.checkpoint_minutes
        self._together = settings.num_envs
        self.saved(updates)

    def saved(self, updates: int) -> None:
        """A checkpoint was made, or a run goes on from one, after so many updates."""
        self._last, self._learned = time.monotonic(), updates > 0

    def by_steps(self, step: int) -> bool:
        """Whether the step that has just been taken asks for one."""
        every = self._every
        return every > 0 and step // every > (step - self._together) // every

    def by_time(self, updates: int) -> bool:
        """Whether the clock asks for one, or the first updates, which took a warm-up to get to."""
        if not self._seconds:
            return False
        begun = updates > 0 and not self._learned
        return begun or time.monotonic() - self._last >= self._seconds


def was_due_by_steps(path: Path) -> bool:
    """Whether a checkpoint on the disk is one that a run may go back to."""
    try:
        return is_of_steps(read_document(path, "checkpoint", "run"))
    except ReselError:
        return False


def is_of_steps(record: object) -> bool:
    """The same of its document `run`; older checkpoints do not say, and all of them may be."""
    return isinstance(record, dict) and record.get("by_steps", True) is True
