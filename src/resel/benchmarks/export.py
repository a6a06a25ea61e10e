"""`resel bench export`: how long one action takes inside the library and once it is exported.

Observations are made up, as large as those of HalfCheetah. The same steps are taken in turn by
`predict` and by the exported loader in ONNX Runtime, on one thread, for each size of network; then
by the policy in C, where there is a compiler, timed inside.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from rich.table import Table

from resel._process import prepare_process
from resel.agent import RESeL, configure
from resel.benchmarks._base import Bench, Result, timing_table
from resel.benchmarks._timing import Laps, Timing, interleave
from resel.benchmarks._workload import HALF_CHEETAH, Idle
from resel.config import Count, SizeName
from resel.deploy import Steps, compiled, find_compiler, open_policy

_EPISODE = 300
"""Steps after which an episode of the check is cut."""
_SIZES: tuple[SizeName, ...] = ("tiny", "paper")


@dataclass(frozen=True)
class ExportBench(Bench):
    """Time one action by `predict` and by an exported policy."""

    name: ClassVar[str] = "export"

    threads: Count = 1
    """CPU threads of `predict`; 0 takes as many as `resel train` would."""
    repetitions: Count = 5
    """Episodes."""
    steps: Count = 200
    """Steps of an episode."""
    encoder: str = "mamba"
    """Recurrent block."""

    def measure(self) -> Result:
        result: Result = {"episode_steps": self.steps}
        with tempfile.TemporaryDirectory() as folder:
            for size in _SIZES:
                result |= self._of_size(size, Path(folder) / size)
        return result

    def _of_size(self, size: SizeName, folder: Path) -> Result:
        config = configure(
            "",
            encoder=self.encoder,
            size=size,
            buffer_steps=_EPISODE,
            max_episode_steps=_EPISODE,
            device="cpu",
        )
        prepare_process(self.threads, config.network.width)
        agent = RESeL(Idle, config=config)
        try:
            about = agent.export(folder)
            policy = open_policy(folder)

            def predict() -> Callable[[Any], Any]:
                state = None

                def act(observation: Any) -> None:
                    nonlocal state
                    _action, state = agent.predict(observation, state)

                return act

            def exported() -> Callable[[Any], Any]:
                policy.reset()
                return policy.act  # type: ignore[no-any-return]

            both = {f"predict_{size}_ms": predict, f"onnx_{size}_ms": exported}
            calls = [_episode(name, begin, self.steps) for name, begin in both.items()]
            timings = interleave(calls, self.repetitions)
            in_c = _in_c(folder, self.repetitions)
        finally:
            agent.close()
        result: Result = {f"onnx_{size}_bytes": about["files"]["policy.onnx"]["size"]}
        if in_c is not None:
            timings[f"c_{size}_ms"] = in_c
        for name, timing in timings.items():
            result |= timing.fields(name)
        return result

    def tables(self, result: Result) -> list[Table]:
        rows = {
            f"{text}, {size}": f"{name}_{size}_ms"
            for size in _SIZES
            for text, name in (("predict", "predict"), ("policy.py", "onnx"), ("policy.h", "c"))
            if f"{name}_{size}_ms" in result
        }
        return [timing_table(f"One action: {self.encoder}", result, rows)]


def _in_c(folder: Path, repetitions: int) -> Timing | None:
    """The header, compiled here and timed inside; None if there is none, or no compiler."""
    header = folder / "policy.h"
    if not header.is_file() or find_compiler() is None:
        return None
    rng = np.random.default_rng(0)
    steps = Steps(
        np.arange(_EPISODE) == 0,
        rng.standard_normal((_EPISODE, HALF_CHEETAH.observation), np.float32),
        np.zeros(_EPISODE, np.float32),
    )
    with compiled(header.read_text()) as program:
        return Timing.of([program.seconds_per_step(steps, _EPISODE) for _ in range(repetitions)])


def _episode(name: str, begin: Callable[[], Callable[[Any], Any]], steps: int) -> Any:
    """Plays one episode of made-up observations; the median seconds of its steps."""
    observations = np.random.default_rng(0).standard_normal(
        (steps, HALF_CHEETAH.observation), np.float32
    )

    def play() -> Laps:
        act, took = begin(), []
        for observation in observations:
            start = time.perf_counter()
            act(observation)
            took.append(time.perf_counter() - start)
        return {name: statistics.median(took)}

    return play
