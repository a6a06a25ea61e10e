"""`resel reproduce`: run the paper's experiments and draw its figures."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from resel.choices import Scale
from resel.cli._arguments import PLAIN, names_in, word
from resel.cli._sweeps import SweepArguments, run_sweep
from resel.cli.console import OUT, print_table
from resel.errors import ConfigError


@dataclass(frozen=True)
class ReproduceArguments:
    """Run the paper's experiments and draw its figures; without names, list them."""

    names: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[NAME ...]")]
    """Figures and tables, or all."""
    scale: Scale = "smoke"
    """smoke: minutes to an hour on two cores; cpu: hours; paper: the paper's own sizes."""
    methods: Annotated[str | None, word("METHOD,...")] = None
    """Only these of the methods that a figure compares, as in resel,sac-mlp."""
    seeds: Annotated[int | None, word("N")] = None
    """Only the first N seeds of each setting; the same command with more goes on from there."""
    preset: Annotated[str | None, word("FILE")] = None
    """A file of `resel tune`, in the place of the preset of its task and method."""
    out: Annotated[Path | None, word("PATH")] = None
    """Folder for runs and figures; reproduce-output/SCALE if not given."""
    sweep: tyro.conf.OmitArgPrefixes[SweepArguments] = field(default_factory=SweepArguments)


def run(argv: Sequence[str]) -> int:
    """Run the chosen experiments, or list all of them."""
    arguments = tyro.cli(ReproduceArguments, args=argv, prog="resel reproduce", config=PLAIN)
    if not arguments.names:
        _list_experiments()
        return 0
    from resel.experiments import choose, narrowed, with_preset, with_seeds

    experiments, scale = choose(arguments.names), arguments.scale
    if arguments.methods is not None:
        wanted = names_in("methods", arguments.methods)
        experiments, notes = narrowed(experiments, scale, wanted)
        for note in notes:
            OUT.print(note, soft_wrap=True, markup=False)
    if arguments.seeds is not None:
        count = arguments.seeds
        most = max(len(experiment.studies[scale].seeds) for experiment in experiments)
        if count > most > 0:
            raise ConfigError(f"--seeds {count} is too many: there are {most} at scale {scale}.")
        experiments = [with_seeds(experiment, scale, count) for experiment in experiments]
    if arguments.preset is not None:
        file = arguments.preset
        experiments = [with_preset(experiment, scale, file) for experiment in experiments]
    out = arguments.out or Path("reproduce-output") / scale
    command = shlex.join(["resel", "reproduce", *argv])
    return run_sweep(arguments.sweep.sweep(experiments, scale, out, command))


def _list_experiments() -> None:
    """The names that can be given."""
    from resel.experiments import CATALOGUE

    table = Table("name", "what it shows", box=None)
    for experiment in CATALOGUE.values():
        table.add_row(experiment.name, experiment.title)
    print_table(table)
