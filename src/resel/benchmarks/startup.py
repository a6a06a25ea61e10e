"""`resel bench startup`: how long it takes until something happens.

Every figure is a process of its own from its start to its end, as the wall clock and the processor
saw it; `first_update` plays a warm-up of one episode first, which `beyond_torch_s` still holds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from rich.table import Table

from resel.benchmarks._base import Bench, Result, number_table, short
from resel.config import Count
from resel.networks import encoder_spec

_COMMAND = "import sys; from resel.cli import main; sys.exit(main({}))"
_LEARN = (
    "from resel import RESeL\n"
    "agent = RESeL('Pendulum-V-v0', size='tiny', encoder='{}', warmup_steps=200, eval_every=0)\n"
    "agent.learn(201)\n"
    "assert agent.learner.updates\n"
)
PROGRAMS = {
    "import_torch": "import torch",
    "import_resel": "import resel",
    "help": _COMMAND.format(["--help"]),
    "tasks": _COMMAND.format(["tasks"]),
    "train_help": _COMMAND.format(["train", "--help"]),
    "dry_run": _COMMAND.format(["reproduce", "all", "--dry-run"]),
    "first_update": _LEARN,
}
"""What is measured, by name: programs for an interpreter of their own."""


@dataclass(frozen=True)
class StartupBench(Bench):
    """Time what comes first: imports, help, a plan, and the way to an update."""

    name: ClassVar[str] = "startup"

    repetitions: Count = 3
    """How often each process is started; the median counts."""
    encoder: str = "mamba"
    """Whose kernels are loaded before the first update."""

    def measure(self) -> Result:
        encoder_spec(self.encoder)  # refused before anything runs
        seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in PROGRAMS}
        for name in ("first_update", "dry_run"):  # what is compiled and measured once
            _run(PROGRAMS[name].format(self.encoder))
        for _ in range(self.repetitions):
            for name, program in PROGRAMS.items():
                seconds[name].append(_run(program.format(self.encoder)))
        found: dict[str, Any] = {}
        for name, both in seconds.items():
            wall, processor = np.median(np.array(both), axis=0)
            found[f"{name}_wall_s"], found[f"{name}_cpu_s"] = float(wall), float(processor)
        beyond = found["first_update_cpu_s"] - found["import_torch_cpu_s"]
        return {**found, "beyond_torch_s": beyond}

    def tables(self, result: Result) -> list[Table]:
        table = number_table("From the start of a process to its end", "seconds", "processor")
        for name in PROGRAMS:
            numbers = (result[f"{name}_wall_s"], result[f"{name}_cpu_s"])
            table.add_row(name.replace("_", " "), *map(short, numbers))
        table.add_row("first update, less torch's import", "", short(result["beyond_torch_s"]))
        return [table]


def _run(program: str) -> tuple[float, float]:
    """Seconds of the clock and of the processor that a program takes."""
    before, begin = os.times(), time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    used = after.children_user + after.children_system
    return time.perf_counter() - begin, used - before.children_user - before.children_system
