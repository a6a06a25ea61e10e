"""`resel bench buffer`: what the replay buffer needs in memory and time.

It is filled with steps as large as Humanoid's (376 observations, 17 actions), once in episodes of
1000 steps and once of 25. `bytes_per_step` is what the process has grown by, over the steps held;
`overhead` is that over 4 (376 + 17 + 1) bytes, the numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from rich.table import Table

from resel._process import prepare_process
from resel.benchmarks._base import Bench, Result, number_table
from resel.benchmarks._memory import release_freed_memory, resident_bytes
from resel.benchmarks._timing import Laps, interleave, seconds_of
from resel.benchmarks._workload import HUMANOID
from resel.config import Count
from resel.data import ReplayBuffer, pack
from resel.errors import ConfigError
from resel.runs import available_memory
from resel.training import made_up_trajectory
from resel.training.threads import PAPER_WIDTH

_EPISODE_LENGTHS = (1000, 25)
_BATCH = 1000
_TURNOVER = 1.1
"""Steps added in all, per step of capacity: the ring goes round and touches every place."""
_HEADROOM = 1.1


@dataclass(frozen=True)
class BufferBench(Bench):
    """Fill replay buffers with steps as large as Humanoid's."""

    name: ClassVar[str] = "buffer"
    needs_kernels: ClassVar[bool] = False

    repetitions: Count = 200
    """How often a batch is drawn and packed."""
    steps: Count = 1_000_000
    """Capacity of the buffer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < max(_EPISODE_LENGTHS):
            raise ConfigError(
                f"--steps {self.steps} holds no episode: give at least {max(_EPISODE_LENGTHS)}."
            )

    def measure(self) -> Result:
        check_room(self.steps, available_memory())
        prepare_process(self.threads, PAPER_WIDTH)
        plain = 4 * (HUMANOID.observation + HUMANOID.action + 1)
        result: Result = {
            "observation_size": HUMANOID.observation,
            "action_size": HUMANOID.action,
            "plain_bytes_per_step": plain,
        }
        for length in _EPISODE_LENGTHS:
            numbers = _measure_one(self.steps, length, self.repetitions)
            numbers["overhead"] = numbers["bytes_per_step"] / plain
            result |= {f"{name}_{length}": value for name, value in numbers.items()}
        result["overhead"] = max(result[f"overhead_{length}"] for length in _EPISODE_LENGTHS)
        return result

    def tables(self, result: Result) -> list[Table]:
        table = number_table(
            f"Replay buffer of {self.steps:,} Humanoid steps",
            *(f"episodes of {length}" for length in _EPISODE_LENGTHS),
        )
        for text, name, form in (
            ("steps held when full", "held_steps", ",.0f"),
            ("bytes per step", "bytes_per_step", ".0f"),
            (f"over {result['plain_bytes_per_step']} bytes", "overhead", ".3f"),
            (f"drawing and packing {_BATCH} steps, ms", "sample_ms", ".3g"),
            ("10 %", "sample_ms_p10", ".3g"),
            ("90 %", "sample_ms_p90", ".3g"),
            ("adding a step, us", "add_us", ".3g"),
        ):
            numbers = (format(result[f"{name}_{length}"], form) for length in _EPISODE_LENGTHS)
            table.add_row(text, *numbers)
        return [table]


def check_room(steps: int, available: int | None) -> None:
    """Refuse before the machine runs out of memory."""

    def needed(count: int) -> float:
        sizes = HUMANOID.observation, HUMANOID.action
        return _HEADROOM * ReplayBuffer.planned_bytes(count, *sizes)

    if available is None or needed(steps) <= available:
        return
    fitting = int(available / needed(1_000_000) * 10) * 100_000
    advice = f"try --steps {fitting}" if fitting else "free some memory first"
    raise ConfigError(
        f"--steps {steps}: the buffer needs {needed(steps) / 1e9:.1f} GB and this machine has "
        f"{available / 1e9:.1f} GB free; {advice}."
    )


def _measure_one(steps: int, length: int, repetitions: int) -> dict[str, float]:
    trajectory = made_up_trajectory(HUMANOID, length, np.random.default_rng(0))
    release_freed_memory()
    before = resident_bytes()
    buffer = ReplayBuffer(steps, HUMANOID.observation, HUMANOID.action)
    episodes = int(steps * _TURNOVER) // length + 1

    def fill() -> None:
        for _ in range(episodes):
            buffer.add(trajectory)

    fill()
    grown = resident_bytes() - before
    again = seconds_of(fill)  # the first time, the system also had to find the memory
    timing = interleave([_sampling(buffer)], repetitions)["sample_ms"]
    return {
        "held_steps": buffer.steps,
        "bytes_per_step": grown / buffer.steps,
        "add_us": again / (episodes * length) * 1e6,
        **timing.fields("sample_ms"),
    }


def _sampling(buffer: ReplayBuffer) -> Callable[[], Laps]:
    rng = np.random.default_rng(0)

    def draw() -> Laps:
        return {"sample_ms": seconds_of(lambda: pack(buffer, buffer.sample(_BATCH, rng)))}

    return draw
