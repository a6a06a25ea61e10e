"""`resel bench`: measure speed and memory on this machine."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import tyro
from rich.table import Table

from resel.cli._arguments import PLAIN, writing
from resel.cli._help import asks_for_help
from resel.cli._kept import kept
from resel.cli._sweeps import stoppable
from resel.cli.console import OUT, announce_compilation, escape, print_table, tell_files, warn
from resel.errors import ConfigError

if TYPE_CHECKING:
    from resel.benchmarks import Bench


def run(argv: Sequence[str]) -> int:
    """Measure one part; the parts bring their own flags."""
    if asks_for_help(argv[:1]):
        _list()
        raise SystemExit(0)  # as the parser ends that prints the help of the others
    known, part = parts(), argv[0] if argv else ""
    if not part:
        raise ConfigError(f"Which part is to be measured? Use one of {', '.join(known)}.")
    if part not in known:
        near = difflib.get_close_matches(part, known, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ConfigError(f"There is no part {part!r}: use one of {', '.join(known)}.{hint}")
    return _measure(argv)


def parts() -> dict[str, str]:
    """What each part measures, by name."""
    if (found := kept()) is not None:
        return dict(found["bench"])
    from resel import benchmarks

    return {part.name: inspect.getdoc(type(part)) or "" for part in benchmarks.PARTS}


def _list() -> None:
    known = parts()
    usage = f"usage: resel bench {{{','.join(known)}}} [OPTIONS]"
    OUT.print(
        f"{usage}\n\nMeasure speed and memory on this machine.\n", markup=False, soft_wrap=True
    )
    table = Table(box=None, show_header=False)
    for name, text in known.items():
        table.add_row(f"[bold]{name}[/bold]", escape(text))
    print_table(table)
    OUT.print("\n`resel bench PART --help` lists the flags of one.", markup=False)


def _measure(argv: Sequence[str]) -> int:
    from resel import benchmarks

    words = tyro.extras.subcommand_type_from_defaults(
        {part.name: part for part in benchmarks.PARTS}, parts()
    )
    chosen = tyro.cli(words, args=argv, prog="resel bench", config=PLAIN)
    return stoppable(lambda check: _tell(chosen), escape(chosen.when_stopped))


def _tell(chosen: Bench) -> int:
    """Measure, write and print; what it has started ends with it."""
    from resel import benchmarks

    if chosen.where().type == "cpu" and chosen.needs_kernels:
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
