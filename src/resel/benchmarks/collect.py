"""`resel bench collect`: how fast experience comes in, by the way many environments are stepped.

The same task and policy, with environments one after another, in processes of their own, in
Gymnasium's vectors, in the vectorised version the task is registered with and in EnvPool's, as far
as there are such. Each is timed twice: the environments alone, with random actions, and collecting
with the policy, as a training does between two updates. They take turns.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from rich.table import Table

from resel._process import prepare_process
from resel.agent import configure
from resel.benchmarks._base import Bench, Result, number_table
from resel.benchmarks._timing import Laps, interleave
from resel.config import Config, Count, SizeName
from resel.envs import AnyEnv, vector_rows
from resel.errors import ReselError
from resel.training import Collector, Trainer, make_task, task_envs
from resel.training.threads import width_of

Way = Literal["single", "workers", "sync", "async", "vector", "envpool"]
_ROWS: dict[str, str] = {
    "single": "one after another",
    "workers": "env_workers: a process each",
    "sync": "Gymnasium's SyncVectorEnv",
    "async": "Gymnasium's AsyncVectorEnv",
    "vector": "env_vector: the task's own version",
    "envpool": "EnvPool",
}


@dataclass(frozen=True)
class CollectBench(Bench):
    """Time collecting with environments that are stepped in different ways."""

    name: ClassVar[str] = "collect"

    threads: Count = 1
    """CPU threads; 0 takes as many as `resel train` would."""
    repetitions: Count = 5
    """How often each way is timed; the median counts."""
    task: str = "Pendulum-v1"
    """A task; EnvPool is looked in for one of the same name."""
    num_envs: Count = 8
    """Environments that are stepped together."""
    steps: Count = 200
    """Steps of each of them that are timed at once."""
    ways: tuple[Way, ...] = ()
    """Which ways beside `single`; all if none is given."""
    encoder: str = "gru"
    """Recurrent block of the policy."""
    size: SizeName = "tiny"
    """Size of the policy."""

    def measure(self) -> Result:
        config = configure(
            self.task,
            preset="small",
            encoder=self.encoder,
            size=self.size,
            num_envs=self.num_envs,
            buffer_steps=max(10_000, self.steps),
            device="cpu",
        )
        prepare_process(self.threads, width_of(config))
        asked = [name for name in _ROWS if name == "single" or name in (self.ways or _ROWS)]
        left_out: dict[str, str] = {}
        timed: list[Callable[[], Laps]] = []
        with ExitStack() as stack:
            for name in asked:
                try:
                    envs, evaluation = _made(name, config)
                    trainer = stack.enter_context(closing(Trainer(config, envs, evaluation)))
                except ReselError as error:
                    if name == "single":
                        raise
                    left_out[name] = str(error)
                    continue
                timed.append(partial(_collecting, name, trainer.collector, envs, self.steps))
                timed.append(partial(_alone, name, trainer.collector, envs, self.steps))
            timings = interleave(timed, self.repetitions)
        rows: list[dict[str, Any]] = [
            {"way": name, **timings[f"{name}_alone"].fields("alone_ms")}
            | timings[f"{name}_collect"].fields("collect_ms")
            for name in _ROWS
            if name in asked and name not in left_out
        ]
        for row in rows:
            row["alone_steps_per_s"] = 1e3 / row["alone_ms"]
            row["collect_steps_per_s"] = 1e3 / row["collect_ms"]
            row["over_single"] = rows[0]["collect_ms"] / row["collect_ms"]
        return {"ways": rows, "left_out": left_out}

    def tables(self, result: Result) -> list[Table]:
        title = f"Steps a second: {self.num_envs} of {self.task}, {self.encoder}, {self.size}"
        table = number_table(title, "alone", "with the policy", "times as fast")
        for row in result["ways"]:
            speeds = (row["alone_steps_per_s"], row["collect_steps_per_s"])
            table.add_row(
                _ROWS[row["way"]], *(f"{s:,.0f}" for s in speeds), f"{row['over_single']:.2f}"
            )
        if not result["left_out"]:
            return [table]
        others = Table("left out", "why", box=None)
        for name, why in result["left_out"].items():
            others.add_row(_ROWS[name], why)
        return [table, others]

    def write(self, result: Result, folder: Path) -> list[Path]:
        path = folder / "collect.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(result["ways"][0]))
            writer.writeheader()
            writer.writerows(result["ways"])
        return [*super().write(result, folder), path]


def _made(name: str, config: Config) -> tuple[Sequence[AnyEnv], AnyEnv | None]:
    """Environments that are stepped in one of the ways."""
    if name in ("sync", "async"):
        kind = SyncVectorEnv if name == "sync" else AsyncVectorEnv
        envs = kind([partial(make_task, config)] * config.training.num_envs)
        return vector_rows(envs, longest=config.training.buffer_steps), None
    if name == "envpool":
        task = config.task.rpartition(":")[2]
        return task_envs(config.replace(task=f"envpool:{task}"))
    ways = {"single": {}, "workers": {"env_workers": True}, "vector": {"env_vector": True}}
    return task_envs(config.replace(**ways[name]))


def _collecting(name: str, collector: Collector, envs: Sequence[AnyEnv], steps: int) -> Laps:
    """Seconds for each step of an environment, with the policy."""
    collector.restart()
    began = time.perf_counter()
    for _ in range(steps):
        collector.step(random=False)
    return {f"{name}_collect": (time.perf_counter() - began) / (steps * len(envs))}


def _alone(name: str, collector: Collector, envs: Sequence[AnyEnv], steps: int) -> Laps:
    """The same without a policy."""
    rng = np.random.default_rng(0)
    actions = [[env.sample(rng) for env in envs] for _ in range(steps)]
    collector.restart()
    began = time.perf_counter()
    for row in actions:
        acting = [env for env in envs if not env.between_episodes]
        begins = [env for env in envs if env.between_episodes]
        for env, action in zip(envs, row, strict=True):
            env.send(action)
        ended = []
        for env in acting:
            outcome = env.receive()
            if outcome.terminated or outcome.truncated:
                ended.append(env)
        for env in (*begins, *ended):
            if not env.between_episodes:
                env.reset(0)
    return {f"{name}_alone": (time.perf_counter() - began) / (steps * len(envs))}
