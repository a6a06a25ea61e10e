"""`resel bench growth`: what gets larger or slower while a run goes on.

The same run of a small agent is made twice, once of `--steps` steps and once of `--repetitions`
times as many. What the second has more on the disk is what further steps cost; memory and time of a
step are looked at after each part of the long one. Its replay buffer is full after the first part:
nothing but the logs should grow.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
from rich.table import Table

from resel._process import prepare_process
from resel.agent import configure
from resel.benchmarks._base import Bench, Result, number_table
from resel.benchmarks._memory import release_freed_memory, resident_bytes
from resel.config import Config, Count
from resel.errors import ConfigError
from resel.methods import get_method
from resel.runs import Run, RunDirectory
from resel.training import TrainProgress
from resel.training.threads import width_of

_LEAST_PARTS, _LEAST_STEPS = 3, 500
_DAY = 86_400.0
_PLACES: dict[str, str] = {
    "metrics": "metrics.jsonl",
    "tensorboard": "TensorBoard",
    "checkpoint": "newest checkpoint",
    "replay": "episodes on the disk",
}
"""What a run directory holds, by name of the figure."""


@dataclass(frozen=True)
class GrowthBench(Bench):
    """Watch a run for what grows: logs, checkpoints, memory, time of a step."""

    name: ClassVar[str] = "growth"

    threads: Count = 1
    """CPU threads; 0 takes as many as `resel train` would."""
    repetitions: Count = 10
    """How many times as long the long run is."""
    steps: Count = 5000
    """Steps of the short run, and of each part of the long one."""
    task: str = "Pendulum-V-v0"
    """What is learned."""
    method: str | None = None
    """By which method; None takes the default one."""
    encoder: str | None = "mlp"
    """Its context encoder."""
    updates_per_step: float = 0.02
    """Few, so that it goes quickly."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for flag, value, least in (
            ("repetitions", self.repetitions, _LEAST_PARTS),
            ("steps", self.steps, _LEAST_STEPS),
        ):
            if value < least:
                raise ConfigError(f"--{flag} {value} is too small: it must be at least {least}.")

    def measure(self) -> Result:
        config = configure(
            self.task,
            method=self.method,
            encoder=self.encoder,
            preset="small",
            size="tiny",
            device="cpu",
            steps=self.steps,
            warmup_steps=self.steps // 5,
            buffer_steps=self.steps,
            eval_episodes=1,
            checkpoint_minutes=0.0,
        )
        if not get_method(config.method).learner.on_policy:
            config = config.replace(updates_per_step=self.updates_per_step)
        # As often as the task has it, but in each part.
        for name in ("eval_every", "checkpoint_every", "log_every"):
            often = min(getattr(config.training, name), self.steps // 2)
            config = config.replace(**{name: often})
        prepare_process(self.threads, width_of(config))
        with tempfile.TemporaryDirectory(prefix="resel-growth-") as folder:
            short = _run(config, Path(folder) / "short", self.steps)[0]
            whole = config.replace(steps=self.steps * self.repetitions)
            long, parts = _run(whole, Path(folder) / "long", self.steps)
        return _figures(short, long, parts)

    def tables(self, result: Result) -> list[Table]:
        long = self.steps * self.repetitions
        sizes = number_table(
            f"{self.task}: {self.steps:,} and {long:,} steps; a day has {result['day_steps']:.3g}",
            *("short, kB", "long, kB", "more in 1,000 steps, kB", "more in 24 hours, MB"),
        )
        for name, text in (*_PLACES.items(), ("memory", "memory of the process")):
            sizes.add_row(
                text,
                f"{result[f'{name}_short_bytes'] / 1e3:,.1f}",
                f"{result[f'{name}_long_bytes'] / 1e3:,.1f}",
                f"{result[f'{name}_per_1000_steps'] / 1e3:,.2f}",
                f"{result[f'{name}_per_day'] / 1e6:,.0f}",
            )
        times = number_table("A step", "early, ms", "late, ms", "late / early")
        for name, text in (("step", "by the clock"), ("step_cpu", "of the processor")):
            numbers = (result[f"{name}_{when}"] for when in ("early_ms", "late_ms"))
            ratio = result[f"{name}_late_over_early"]
            times.add_row(text, *(f"{number:.3g}" for number in numbers), f"{ratio:.2f}")
        return [sizes, times]


@dataclass
class _Parts:
    """Called after every step: what each part of a run took, and the memory at its end."""

    steps: int
    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    _began: tuple[float, float] = (0.0, 0.0)

    def begin(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def __call__(self, progress: TrainProgress) -> None:
        if progress.step < self.steps * (len(self.wall) + 1):
            return
        wall, processor = self._began
        self.wall.append((time.perf_counter() - wall) / self.steps)
        self.processor.append((time.process_time() - processor) / self.steps)
        release_freed_memory()
        self.memory.append(resident_bytes())
        self.begin()


def _run(config: Config, path: Path, steps: int) -> tuple[dict[str, int], _Parts]:
    """Bytes of what a run has left, once it is closed, and its parts."""
    parts = _Parts(steps)
    with closing(Run(config, path)) as run:
        parts.begin()
        run.train([parts])
        directory = run.directory
    return _sizes(directory), parts


def _sizes(directory: RunDirectory) -> dict[str, int]:
    places = {
        "metrics": directory.metrics_path,
        "tensorboard": directory.tensorboard_path,
        "checkpoint": directory.checkpoints()[-1],
        "replay": directory.replay_path,
    }
    return {name: _bytes_in(path) for name, path in places.items()}


def _bytes_in(path: Path) -> int:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def _figures(short: dict[str, int], long: dict[str, int], parts: _Parts) -> Result:
    """What a thousand steps add, what a day would, and whether steps take longer."""
    count, third = len(parts.wall), max(1, (len(parts.wall) - 1) // 3)
    result: Result = {"parts": {n: getattr(parts, n) for n in ("wall", "processor", "memory")}}
    # The first part is left out: in it the buffer is filled, and all else is done for the first
    # time.
    for name, seconds in (("step", parts.wall), ("step_cpu", parts.processor)):
        early, late = (
            float(np.median(some)) for some in (seconds[1 : 1 + third], seconds[-third:])
        )
        result |= {f"{name}_early_ms": early * 1e3, f"{name}_late_ms": late * 1e3}
        result[f"{name}_late_over_early"] = late / early
    day = result["day_steps"] = _DAY * 1e3 / result["step_late_ms"]
    slopes = {name: (long[name] - short[name]) / (parts.steps * (count - 1)) for name in _PLACES}
    half = count // 2  # by then windows of recent numbers are full, or nearly so
    memory = np.polyfit(np.arange(half, count), parts.memory[half:], 1)[0]
    slopes["memory"] = float(memory) / parts.steps
    short, long = short | {"memory": parts.memory[1]}, long | {"memory": parts.memory[-1]}
    for name, slope in slopes.items():
        result |= {f"{name}_short_bytes": short[name], f"{name}_long_bytes": long[name]}
        result |= {f"{name}_per_1000_steps": 1e3 * slope, f"{name}_per_day": day * slope}
    return result
