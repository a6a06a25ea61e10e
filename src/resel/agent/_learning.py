"""`Agent.learn` as a run: with the directory, checkpoints and logs of `resel train`."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from resel.errors import ConfigError
from resel.runs import (
    Resume,
    Run,
    RunDirectory,
    check_past,
    finished_result,
    restore_newest,
)
from resel.training import Trainer, stopped_by


@dataclass(frozen=True)
class RunOptions:
    """Where `learn` writes a run, and how it begins."""

    run_dir: str | os.PathLike[str] | None = None
    resume: Resume = "never"
    wandb: bool = False
    force: bool = False

    def __post_init__(self) -> None:
        if self.resume not in get_args(Resume):
            known = " or ".join(map(repr, get_args(Resume)))
            raise ConfigError(f"resume={self.resume!r} is not known: it is {known}.")
        if self.run_dir is None and (self.resume != "never" or self.wandb or self.force):
            raise ConfigError(
                "resume, wandb and force are for a run: give learn(..., run_dir=...) as well."
            )

    @property
    def goes_on(self) -> bool:
        """Whether there is a run to go on with."""
        there = self.run_dir is not None and Path(self.run_dir, "config.json").exists()
        return there and self.resume == "auto"


@dataclass(frozen=True)
class Origin:
    """The run from which an agent was loaded, and goes on once it learns."""

    path: Path
    step: int
    same_task: bool
    """Else only the learner goes on: episodes of another task would mislead it."""

    @classmethod
    def of(cls, path: str | os.PathLike[str], same_task: bool) -> Origin | None:
        """None where there is no run, or one without a checkpoint."""
        if not Path(path, "config.json").is_file():
            return None
        steps = RunDirectory.open(path, read_only=True).checkpoint_steps()
        return cls(Path(path), steps[-1], same_task) if steps else None

    def restore(self, trainer: Trainer) -> None:
        """Put the trainer where the run stood at its newest checkpoint."""
        directory = RunDirectory.open(self.path, read_only=True)
        if not restore_newest(trainer, directory, learner_only=not self.same_task):
            warnings.warn(
                "Learning goes on, but not exactly as it would have: "
                f"{trainer.collector.why_not_repeated}.",
                stacklevel=4,
            )


@contextmanager
def open_run(
    trainer: Trainer, options: RunOptions, total: int, reach: float | None = None
) -> Iterator[Run | dict[str, Any]]:
    """A run to `total` steps; the result of the one there if it needs no more for the return
    `reach`, and its end is taken over."""
    assert options.run_dir is not None
    path, planned = Path(options.run_dir), trainer.config.training.steps
    trainer.set_steps(total)
    try:
        auto = options.resume == "auto"
        result = finished_result(trainer.config, path, reach) if auto else None
        if result is not None:
            check_past(path, result["steps"], trainer.step)
            restore_newest(trainer, RunDirectory.open(path, read_only=True))
            run: Run | None = None
        else:
            given = options.resume, options.wandb, options.force
            run = Run(trainer.config, path, *given, trainer=trainer)
    except BaseException:
        trainer.set_steps(planned)
        raise
    with _interruptible(trainer), closing(run) if run is not None else nullcontext():
        yield run or result or {}


def why_it_rests(result: Mapping[str, Any], total: int) -> str:
    """What there is to say of a run that takes no step, after its name."""
    if reason := result.get("stopped_because"):
        return (
            f"was stopped early at step {result['steps']:,}: {reason}. It goes on if more is asked "
            f"for: more than {total:,} steps, or a higher return."
        )
    return "is finished: no step is left to take."


@contextmanager
def _interruptible(trainer: Trainer) -> Iterator[None]:
    """Ctrl-C ends the training after the current step, when all is saved; a second one at once.

    A program that has its own way with Ctrl-C keeps it.
    """
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    with stopped_by(trainer, (signal.SIGINT,)) as caught:
        yield
    if caught:
        raise KeyboardInterrupt
