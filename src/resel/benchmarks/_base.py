"""What all parts of `resel bench` share: flags, the frame around the result, files."""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from rich.table import Table

from resel.benchmarks._timing import watch_machine
from resel.config import Count
from resel.errors import ConfigError
from resel.runs import describe_machine

Result = dict[str, Any]


@dataclass(frozen=True)
class Bench(ABC):
    """One part: its fields are the flags of the command."""

    name: ClassVar[str]
    needs_kernels: ClassVar[bool] = True
    """Compiled ones, so that the first run on a machine takes longer."""

    @property
    def beside(self) -> int:
        """Processes that are to keep the machine busy meanwhile."""
        return 0

    @property
    def when_stopped(self) -> str:
        """What to tell who stops it."""
        return "Stopped; nothing of it is kept."

    def where(self) -> torch.device:
        """What it measures; settings that mean nothing there are refused."""
        return torch.device("cpu")

    json: bool = False
    """Print one JSON object and nothing else."""
    out: Path | None = None
    """Folder to write the results into, as JSON and, where it helps, tables and pictures."""
    threads: Count = 0
    """CPU threads; 0 takes as many as `resel train` would."""
    repetitions: Count = 20
    """How often each thing is timed; the median counts."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            lowest = 0 if field.name in ("threads", "busy") else 1
            if isinstance(value, int) and not isinstance(value, bool) and value < lowest:
                flag = field.name.replace("_", "-")
                raise ConfigError(f"--{flag} {value} is too small: it must be at least {lowest}.")

    @abstractmethod
    def measure(self) -> Result:
        """The numbers by name; a name says its unit."""

    @abstractmethod
    def tables(self, result: Result) -> list[Table]:
        """The result for people."""

    def write(self, result: Result, folder: Path) -> list[Path]:
        """Write the result into an existing folder; the files written."""
        path = folder / f"{self.name}.json"
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        return [path]


def run(bench: Bench) -> Result:
    """Measure, and add what the numbers depend on."""
    device = str(bench.where())
    if bench.out is not None:
        _make_folder(bench.out)
    with watch_machine() as doubts:
        measured = bench.measure()
    if bench.beside:
        doubts = [f"the machine was kept busy, as was asked (--busy {bench.beside})"]
    threads = torch.get_num_threads()
    settings = dataclasses.asdict(bench)
    for name in ("json", "out", "runs"):  # nothing depends on where things are written
        settings.pop(name, None)
    return {
        "bench": bench.name,
        "settings": settings,
        "device": device,
        "threads": threads,
        "torch": torch.__version__,
        "dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "machine": describe_machine(device),
        "doubts": doubts,
        **measured,
    }


def timing_table(title: str, result: Result, rows: dict[str, str]) -> Table:
    """Medians with their spread; `rows` maps what it says to the name of the number."""
    table = number_table(title, "ms", "10 %", "90 %")
    for text, name in rows.items():
        numbers = (result[name], result[f"{name}_p10"], result[f"{name}_p90"])
        table.add_row(text, *map(short, numbers))
    return table


def number_table(title: str, *columns: str) -> Table:
    """A table whose first column is text and whose others are numbers."""
    table = Table("", title=title, box=None, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def short(number: float) -> str:
    """Three digits, or all those before the point."""
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"--out {path}: the folder cannot be made ({error.strerror}). Name another one."
        ) from error
