"""`resel report`: runs as one interactive page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from resel.cli._arguments import PLAIN, word
from resel.cli.console import OUT, warn
from resel.errors import ConfigError


@dataclass(frozen=True)
class ReportArguments:
    """Write a run, or a folder of runs, as one interactive page (extra `report`)."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """A run directory, or a folder with runs at any depth."""
    out: Path = Path("report.html")
    """Page to write."""
    figures: Annotated[Path | None, word("PATH")] = None
    """Also write each figure as PNG, SVG and CSV into this folder."""


def run(argv: Sequence[str]) -> int:
    """Write the page, and the figures if asked; what could not be read is told."""
    arguments = tyro.cli(ReportArguments, args=argv, prog="resel report", config=PLAIN)
    from resel.reports import make_report

    if arguments.out.suffix not in (".html", ".htm"):
        raise ConfigError(f"--out {arguments.out}: use a file name with .html.")
    made = make_report(arguments.folder)
    made.write(arguments.out)
    if made.failures:
        first = made.failures[0]
        warn(
            f"The page lists what could not be read ({len(made.failures)}) with the reason; "
            f"the first is {first.name}: {first.reason}"
        )
    if arguments.figures is not None:
        written = made.write_figures(arguments.figures)
        OUT.print(f"Figures: {len(written)} files in {arguments.figures}", soft_wrap=True)
    OUT.print(f"Report: {arguments.out}", soft_wrap=True)
    return 0
