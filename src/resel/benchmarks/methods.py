"""`resel bench methods`: what a step of the environment costs with each method.

An agent of each method is trained on the same task, past its warm-up and the first updates, and
then timed for some steps: acting, the simulator, drawing batches, updates. The methods take turns,
so that a machine whose speed changes is the same for all; the processor's time counts.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rich.table import Table

from resel._process import prepare_process
from resel.agent import Agent, configure
from resel.benchmarks._base import Bench, Result, number_table, short
from resel.benchmarks._timing import Laps, interleave
from resel.config import Config, Count, SizeName
from resel.data import PerRollout
from resel.errors import ReselError
from resel.methods import default_method, get_method, own_methods
from resel.tasks import get_task
from resel.training.threads import width_of

_PRESET = "small"
_NEVER, _WARMUP = 10**9, 500
_PART = 256
"""Steps that are timed at once, at least: whole episodes, or of on-policy methods whole rollouts,
until one brings updates. A method that learns in bursts is so timed from one to the next, and each
step has its share of them."""


@dataclass(frozen=True)
class MethodsBench(Bench):
    """Time a step of the environment with every method."""

    name: ClassVar[str] = "methods"

    threads: Count = 1
    """CPU threads; 0 takes as many as `resel train` would."""
    repetitions: Count = 5
    """How often the steps of each method are timed; the median counts."""
    task: str = "Pendulum-V-v0"
    """What is trained on; `Pendulum-gravity-v0` also serves methods that are told tasks."""
    methods: tuple[str, ...] = ()
    """Which methods; all that can learn the task if none is given."""
    size: SizeName = "tiny"
    """Network size."""

    def measure(self) -> Result:
        names = self.methods or tuple(method.name for method in own_methods())
        rows, left_out = [], {}
        with ExitStack() as stack:
            timed: dict[str, Callable[[], Laps]] = {}
            for name in names:
                config = self._config(name)
                prepare_process(self.threads, width_of(config))
                try:
                    agent = stack.enter_context(closing(Agent(self.task, config=config)))
                    timed[name] = _steps(agent, config)
                except ReselError as error:
                    if self.methods:
                        raise
                    left_out[name] = str(error)
            timings = interleave(list(timed.values()), self.repetitions)
        base = timings[f"{default_method()}_step_ms"].median if default_method() in timed else None
        for name in timed:
            timing, updates = timings[f"{name}_step_ms"], timings[f"{name}_updates"].median / 1e3
            row: dict[str, Any] = {"method": name, "title": get_method(name).title}
            row |= timing.fields("step_ms") | {"updates_per_step": updates}
            rows.append(row | {"over_resel": timing.median / base if base else None})
        return {"methods": rows, "left_out": left_out}

    def tables(self, result: Result) -> list[Table]:
        title = f"Processor time of an environment step: {self.task}, {self.size} networks"
        table = number_table(title, "ms", "10 %", "90 %", "updates", "over RESeL")
        for row in sorted(result["methods"], key=lambda row: row["step_ms"]):
            times = [row["step_ms"], row["step_ms_p10"], row["step_ms_p90"]]
            ratio = "-" if row["over_resel"] is None else short(row["over_resel"])
            table.add_row(row["title"], *map(short, [*times, row["updates_per_step"]]), ratio)
        if not result["left_out"]:
            return [table]
        others = Table("left out", "why", box=None)
        for name, why in result["left_out"].items():
            others.add_row(name, why)
        return [table, others]

    def write(self, result: Result, folder: Path) -> list[Path]:
        path = folder / "methods.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(result["methods"][0]))
            writer.writeheader()
            writer.writerows(result["methods"])
        return [*super().write(result, folder), path]

    def _config(self, name: str) -> Config:
        config = configure(self.task, method=name, preset=_PRESET, size=self.size, seed=1)
        warmup = min(config.training.warmup_steps, _WARMUP)
        more = {"device": "cpu", "threads": self.threads, "eval_every": _NEVER}
        return config.replace(warmup_steps=warmup, **more)


def _steps(agent: Agent, config: Config) -> Callable[[], Laps]:
    """Plays and learns; seconds and updates of a step, for an agent that learns already."""
    settings, schedule = config.training, agent.learner.schedule
    task = get_task(config.task)
    episode = task.horizon if task is not None else _PART
    part = schedule.steps if isinstance(schedule, PerRollout) else episode

    def learn() -> int:
        """Whole parts, the last of which brought updates: the steps they took."""
        steps, learned = 0, False
        while steps < _PART or not learned:
            updates = agent.learner.updates
            agent.learn(part)
            steps, learned = steps + part, agent.learner.updates > updates
        return steps

    def play() -> Laps:
        updates, began = agent.learner.updates, time.process_time()
        steps = learn()
        seconds = time.process_time() - began
        name = config.method
        made = agent.learner.updates - updates
        return {f"{name}_step_ms": seconds / steps, f"{name}_updates": made / steps}

    agent.learn(max(settings.warmup_steps, getattr(config.algorithm, "learn_after", 0)) + part)
    learn()
    return play
