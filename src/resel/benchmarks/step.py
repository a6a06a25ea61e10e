"""`resel bench step`: how long an agent thinks about one action.

Observations are made up, as large as those of HalfCheetah; one environment, and 16 at once. The
whole history is in the state, so late steps should take no longer than early ones:
`late_over_early` compares the last tenth of the episode with the first tenth of another one, step
by step in turn, because the speed of the machine may change in the course of an episode.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from rich.table import Table

from resel._process import prepare_process
from resel.agent import RESeL, configure
from resel.benchmarks._base import Bench, Result, number_table, timing_table
from resel.benchmarks._timing import Laps, interleave
from resel.benchmarks._workload import HALF_CHEETAH, Idle
from resel.config import Count, SizeName
from resel.errors import ConfigError
from resel.training import PolicyState

_LONG = 10_000
_MANY = 16
_WINDOW = 10
"""The first and the last of so many parts of the episode are compared."""


@dataclass(frozen=True)
class StepBench(Bench):
    """Time `predict` of an agent, early and late in an episode."""

    name: ClassVar[str] = "step"

    threads: Count = 1
    """CPU threads; 0 takes as many as `resel train` would."""
    repetitions: Count = 3
    """Episodes."""
    steps: Count = 1000
    """Steps of an episode."""
    long: bool = False
    """Episodes of 10,000 steps."""
    encoder: str = "mamba"
    """Recurrent block."""
    size: SizeName = "paper"
    """Network size."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < _WINDOW:
            raise ConfigError(
                f"--steps {self.steps} is too small to compare early and late: give {_WINDOW}."
            )

    def measure(self) -> Result:
        config = configure("", encoder=self.encoder, size=self.size, buffer_steps=1, device="cpu")
        prepare_process(self.threads, config.network.width)
        steps = _LONG if self.long else self.steps
        agent = RESeL(Idle, config=config)
        try:
            timings = interleave(
                [_episode(agent, rows, steps) for rows in (1, _MANY)], self.repetitions
            )
        finally:
            agent.close()
        result: Result = {"episode_steps": steps}
        for name, timing in timings.items():
            result |= timing.fields(name)
        for rows, name in ((1, "late_over_early"), (_MANY, f"late_over_early_{_MANY}")):
            late, early = (timings[f"predict_{rows}_{when}_ms"] for when in ("late", "early"))
            result[name] = late.median / early.median
        return result

    def tables(self, result: Result) -> list[Table]:
        rows = {
            f"{text}, {when or 'whole episode'}": f"predict_{count}{'_' if when else ''}{when}_ms"
            for text, count in (("1 environment", 1), (f"{_MANY} environments", _MANY))
            for when in ("", "early", "late")
        }
        ratios = number_table("", "")
        ratios.add_row("late / early", f"{result['late_over_early']:.2f}")
        ratios.add_row(f"late / early, {_MANY}", f"{result[f'late_over_early_{_MANY}']:.2f}")
        title = f"One action: {self.encoder}, {self.size}, {result['episode_steps']} steps"
        return [timing_table(title, result, rows), ratios]


def _episode(agent: RESeL, rows: int, steps: int) -> Callable[[], Laps]:
    """Plays one episode of made-up observations; the median seconds of its steps."""
    rng = np.random.default_rng(0)
    batch = () if rows == 1 else (rows,)
    observations = rng.standard_normal((steps, *batch, HALF_CHEETAH.observation), np.float32)
    window = steps // _WINDOW

    def act(observation: Any, state: PolicyState | None) -> tuple[float, PolicyState]:
        start = time.perf_counter()
        _action, state = agent.predict(observation, state)
        return time.perf_counter() - start, state

    def play() -> Laps:
        took, state = act(observations[0], None)
        _, other = act(observations[0], None)
        whole, early, late = [took], [], []
        for observation in observations[1:-window]:
            took, state = act(observation, state)
            whole.append(took)
        for observation, first in zip(
            observations[-window:], observations[1 : window + 1], strict=True
        ):
            took, state = act(observation, state)
            late.append(took)
            took, other = act(first, other)
            early.append(took)
        parts = {"": [*whole, *late], "_early": early, "_late": late}
        return {f"predict_{rows}{when}_ms": statistics.median(s) for when, s in parts.items()}

    return play
