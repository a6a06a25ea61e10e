"""`resel doctor`: is this installation in order?"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import tyro
from rich.table import Table

from resel.cli._arguments import PLAIN
from resel.cli.console import ERR, OUT, announce_compilation, escape, print_table

if TYPE_CHECKING:
    from resel.doctor import Finding

_STYLES = {"good": "green", "note": "yellow", "missing": "dim", "bad": "bold red"}


@dataclass(frozen=True)
class DoctorArguments:
    """Look whether this installation is in order, and tell what is not."""

    json: bool = False
    """Print a JSON list of findings and nothing else."""


def run(argv: Sequence[str]) -> int:
    """Look at everything; 1 if something is bad."""
    arguments = tyro.cli(DoctorArguments, args=argv, prog="resel doctor", config=PLAIN)
    from resel.doctor import examine

    announce_compilation()
    begin = time.perf_counter()
    findings: list[Finding] = []
    with ERR.status("Looking at this installation ...") as status:
        for finding in examine():
            findings.append(finding)
            status.update(f"Looking at {finding.part} ...")
    bad = [finding for finding in findings if finding.state == "bad"]
    if arguments.json:
        print(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=1))
        return 1 if bad else 0
    _print(findings)
    for_kernels = sum(finding.seconds or 0.0 for finding in findings)
    OUT.print(
        f"It took {time.perf_counter() - begin:.1f} seconds, {for_kernels:.1f} of them for kernels "
        "(compiling included, where that was not done before)."
    )
    if not bad:
        OUT.print("All is well: resel can train here.")
        return 0
    count = f"{len(bad)} things are" if len(bad) > 1 else "1 thing is"
    OUT.print(f"{count} bad: see above, and mend what is marked so.")
    return 1


def _print(findings: Sequence[Finding]) -> None:
    table = Table("part", "what", "state", "seconds", "", box=None)
    part = ""
    for finding in findings:
        state = f"[{_STYLES[finding.state]}]{finding.state}[/]"
        first = "" if finding.part == part else finding.part
        took = "" if finding.seconds is None else f"{finding.seconds:.2f}"
        table.add_row(first, escape(finding.what), state, took, escape(finding.text))
        part = finding.part
    print_table(table)
