"""`resel bench`: measure speed and memory on this machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import tyro

from resel import benchmarks
from resel.cli._arguments import PLAIN, writing
from resel.cli.console import announce_compilation, print_table, tell_files, warn


def run(argv: Sequence[str]) -> int:
    """Measure one part; the parts bring their own flags."""
    parts = tyro.extras.subcommand_type_from_defaults(
        {part.name: part for part in benchmarks.PARTS},
        {part.name: str(type(part).__doc__) for part in benchmarks.PARTS},
    )
    chosen = tyro.cli(parts, args=argv, prog="resel bench", config=PLAIN)
    if chosen.needs_kernels:
        announce_compilation()
    result = benchmarks.run(chosen)
    for doubt in result["doubts"]:
        warn(f"{doubt}.")
    written: list[Path] = []
    if chosen.out is not None:
        with writing("--out", chosen.out):
            written = chosen.write(result, chosen.out)
    if chosen.json:
        print(json.dumps(result))
        return 0
    for table in chosen.tables(result):
        print_table(table)
    tell_files(written)
    return 0
