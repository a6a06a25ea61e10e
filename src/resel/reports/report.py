"""From a folder to a report on the disk."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from resel.analysis.paper import read_paper
from resel.analysis.runs import is_run, read_run
from resel.errors import ConfigError, RunDirectoryError
from resel.reports.collection import Failure, collect
from resel.reports.figures import Figure
from resel.reports.folder_page import folder_page
from resel.reports.page import Page, render
from resel.reports.pictures import write_pictures
from resel.reports.run_page import run_page

_FAULTS_NAMED = 3


@dataclass(frozen=True)
class Report:
    """A page about runs; nothing is written before `write`."""

    page: Page
    failures: tuple[Failure, ...] = ()
    """What could not be read; the page lists it too."""

    def write(self, path: Path) -> None:
        """Write the page as one HTML file."""
        text = render(self.page)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        except OSError as error:
            raise ConfigError(
                f"--out {path} cannot be written ({error.strerror}). Choose another file."
            ) from error

    def write_figures(self, folder: Path) -> list[Path]:
        """Write every figure as PNG, SVG and CSV."""
        figures = [figure for figure in self.page.figures if isinstance(figure, Figure)]
        return write_pictures(figures, folder)


def make_report(folder: Path) -> Report:
    """Read a run directory, or all runs under a folder."""
    where = Path(os.path.realpath(folder))  # beside which a linked experiment's runs are
    if not where.is_dir():
        raise RunDirectoryError(f"There is no folder {where}. Give a run or a folder of runs.")
    if is_run(where):
        return Report(run_page(read_run(where, where.name)))
    found = collect(where)
    if not (found.runs or found.failures or found.experiments):
        raise RunDirectoryError(
            f"There is no run in {where} or below it (no config.json). Give a run directory or a "
            "folder that holds some."
        )
    if not found.runs and found.failures:
        reasons = " ".join(failure.reason for failure in found.failures[:_FAULTS_NAMED])
        raise RunDirectoryError(
            f"None of the {len(found.failures)} runs in {where} can be read. {reasons}"
        )
    page = folder_page(where.name, found, read_paper())
    return Report(page, tuple(found.failures))
