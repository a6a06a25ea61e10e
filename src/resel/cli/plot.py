"""`resel plot`: draw learning curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from resel.cli._arguments import PLAIN, word, writing
from resel.cli.console import OUT
from resel.errors import ConfigError


@dataclass(frozen=True)
class PlotArguments:
    """Draw the learning curves of one or more runs; seeds of the same run as one."""

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN [RUN ...]")]
    """Run directories."""
    out: Path = Path("curve.png")
    """Picture to write (.png, .svg or .pdf)."""
    csv: Annotated[Path | None, word("PATH")] = None
    """Also write the evaluations as a table."""


def run(argv: Sequence[str]) -> int:
    """Read the runs, draw them, and write them as a table if asked."""
    arguments = tyro.cli(PlotArguments, args=argv, prog="resel plot", config=PLAIN)
    from resel.reports.curves import draw, read_evaluated, write_csv

    if not arguments.runs:
        raise ConfigError("resel plot needs at least one run directory.")
    if arguments.out.suffix not in (".png", ".svg", ".pdf"):
        raise ConfigError(f"--out {arguments.out}: use a file name with .png, .svg or .pdf.")
    runs = [read_evaluated(path) for path in arguments.runs]
    with writing("--out", arguments.out):
        draw(runs, arguments.out)
    if arguments.csv is not None:
        with writing("--csv", arguments.csv):
            write_csv(runs, arguments.csv)
    OUT.print(f"Picture: {arguments.out}", soft_wrap=True)
    return 0
