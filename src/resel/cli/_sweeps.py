"""How several runs are brought to their end: what `reproduce`, `compare` and others share."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from resel.choices import EngineName, Scale
from resel.cli._arguments import word
from resel.cli.console import OUT
from resel.config import Count

if TYPE_CHECKING:
    from resel.experiments import Experiment, Sweep


@dataclass(frozen=True)
class SweepArguments:
    """Where and how the runs are made."""

    engine: EngineName = "local"
    """local processes, a ray cluster (extra `ray`), or a slurm script to submit."""
    jobs: Count = 0
    """Runs side by side; 0 is automatic: one per GPU, or else per core."""
    attempts: Count = 3
    """How often a run may fail without progress before it is given up."""
    ray_address: Annotated[str | None, word("ADDRESS")] = None
    """Cluster to join (HOST:PORT or auto); if not given, one is started on this machine."""
    write: Annotated[Path | None, word("PATH")] = None
    """With slurm: the script to write."""
    dry_run: bool = False
    """Only tell what would be run."""
    measure_again: bool = False
    """Measure what an update takes on this machine even if it was measured before, or could be
    estimated."""
    draw: bool = False
    """Only draw from the runs that are there; nothing is trained."""
    archive: Annotated[Path | None, word("PATH")] = None
    """Folder in which the numbers of finished runs are kept, without weights; runs that are in it
    already are not made again."""

    def sweep(
        self, experiments: Sequence[Experiment], scale: Scale, out: Path, command: str
    ) -> Sweep:
        """These experiments in this way."""
        from resel.experiments import Sweep

        return Sweep(
            experiments,
            scale,
            out,
            command,
            self.engine,
            self.jobs,
            self.attempts,
            self.ray_address,
            self.write,
            self.dry_run,
            self.measure_again,
            self.archive,
            self.draw,
        )


def run_sweep(sweep: Sweep) -> int:
    """Ctrl-C and SIGTERM stop the sweep, whose runs save themselves."""
    from resel.experiments import reproduce

    told = "Stopped; all runs are saved. The same command goes on with them."
    return stoppable(lambda check: reproduce(sweep, OUT), told)


def stoppable(work: Callable[[Callable[[], None]], int], told: str, gently: bool = False) -> int:
    """Do what can be stopped by Ctrl-C and SIGTERM and says `told` then; the exit code.

    Work that is stopped `gently` calls what it is given now and then, and is left there; a second
    signal ends it wherever it is.
    """
    stopped: list[int] = []

    def stop(number: int, frame: Any) -> None:
        stopped.append(number)
        if not gently or len(stopped) > 1:
            raise KeyboardInterrupt

    def check() -> None:
        if stopped:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return work(check)
    except KeyboardInterrupt:
        OUT.print(told, soft_wrap=True)
        return 128 + (stopped[0] if stopped else signal.SIGINT)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
