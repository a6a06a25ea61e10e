"""`resel reproduce`: run the paper's experiments and draw its figures."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.table import Table

from resel.cli._arguments import PLAIN, word
from resel.cli.console import OUT, print_table
from resel.config import Count
from resel.experiments import CATALOGUE, EngineName, Scale, Sweep, choose, reproduce


@dataclass(frozen=True)
class ReproduceArguments:
    """Run the paper's experiments and draw its figures; without names, list them."""

    names: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[NAME ...]")]
    """Figures and tables, or all."""
    scale: Scale = "smoke"
    """smoke: minutes to an hour on two cores; cpu: hours; paper: the paper's own sizes."""
    out: Annotated[Path | None, word("PATH")] = None
    """Folder for runs and figures; reproduce-output/SCALE if not given."""
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


def run(argv: Sequence[str]) -> int:
    """Run the chosen experiments, or list all of them."""
    arguments = tyro.cli(ReproduceArguments, args=argv, prog="resel reproduce", config=PLAIN)
    if not arguments.names:
        _list_experiments()
        return 0
    return _run_sweep(
        Sweep(
            choose(arguments.names),
            arguments.scale,
            arguments.out or Path("reproduce-output") / arguments.scale,
            shlex.join(["resel", "reproduce", *argv]),
            arguments.engine,
            arguments.jobs,
            arguments.attempts,
            arguments.ray_address,
            arguments.write,
            arguments.dry_run,
        )
    )


def _run_sweep(sweep: Sweep) -> int:
    """Ctrl-C and SIGTERM stop the sweep, whose runs save themselves."""
    stopped: list[int] = []

    def stop(number: int, frame: Any) -> None:
        stopped.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        return reproduce(sweep, OUT)
    except KeyboardInterrupt:
        OUT.print("Stopped; all runs are saved. The same command goes on with them.")
        return 128 + (stopped[0] if stopped else signal.SIGINT)
    finally:
        signal.signal(signal.SIGTERM, before)


def _list_experiments() -> None:
    """The names that can be given."""
    table = Table("name", "what it shows", box=None)
    for experiment in CATALOGUE.values():
        table.add_row(experiment.name, experiment.title)
    print_table(table)
