"""`resel diagnose`: measure what an update does to a policy, and advise on LR_CE."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.table import Table

from resel._process import prepare_process
from resel.cli._arguments import PLAIN, RunPath, word
from resel.cli.console import OUT, announce_compilation, print_table, tell_files
from resel.config import Count
from resel.errors import ConfigError

if TYPE_CHECKING:
    from resel.analysis import Diagnosis


@dataclass(frozen=True)
class DiagnoseArguments:
    """Measure what one update does to the policy of a run, and which LR_CE suits it."""

    run: RunPath
    """A run directory with a checkpoint. It is only read."""
    episodes: Count = 20
    """How many to record and compare."""
    seed: Count = 1
    """Chooses the batch and the episodes."""
    json: bool = False
    """Print one JSON object and nothing else."""
    out: Annotated[Path | None, word("PATH")] = None
    """Folder to write diagnosis.json and the picture diagnosis.png to."""


def run(argv: Sequence[str]) -> int:
    """Measure, write and tell."""
    arguments = tyro.cli(DiagnoseArguments, args=argv, prog="resel diagnose", config=PLAIN)
    if arguments.out is not None and arguments.out.is_file():
        raise ConfigError(f"--out {arguments.out} is a file: give a folder.")
    if str(arguments.run).startswith("zoo:"):
        raise ConfigError(
            f"{arguments.run} is a trained agent without the optimisers and the replay buffer of "
            "its run: train one as its card says (`resel zoo list`), and diagnose that run."
        )
    from resel.analysis import diagnose
    from resel.runs import saved_config
    from resel.training.threads import width_of

    config = saved_config(arguments.run)
    prepare_process(config.training.threads, width_of(config))
    announce_compilation()
    found = diagnose(arguments.run, arguments.episodes, arguments.seed)
    written = [] if arguments.out is None else found.write(arguments.out)
    if arguments.json:
        print(json.dumps(found.to_json()))
        return 0
    _show(found)
    tell_files(written)
    return 0


def _show(found: Diagnosis) -> None:
    """The measurement as a table, and what follows from it in words."""
    measured = found.amplification
    OUT.print(
        f"[bold]{measured.task}[/bold] with {measured.encoder} at step {measured.step:,}: one "
        f"policy update, {len(measured.lengths)} episodes, L2 distance of {measured.distance}"
    )
    names = ("LR_CE", "LR_other", "first step", "converged", "factor")
    table = Table(*names, "K_h", "K_y", "epsilon", "misfit", box=None)
    for variation in measured.variations:
        factor, effective = measured.factor(variation), variation.effective
        table.add_row(
            *(f"{rate:.3g}" for rate in variation.rates),
            f"{variation.first:.4g}",
            f"{variation.converged:.4g}",
            "-" if factor is None else f"{factor:.2f}",
            f"{effective.K_h:.4f}",
            f"{effective.K_y:.4f}",
            f"{effective.epsilon:.4g}",
            f"{effective.relative_error:.0%}",
        )
    print_table(table)
    OUT.print(
        "K_h, K_y and epsilon are effective values: fitted to the curve, with that misfit, no "
        "bounds."
    )
    for paragraph in found.words():
        OUT.print(paragraph)
