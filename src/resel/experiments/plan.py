"""What reproducing something takes, worked out before anything runs.

A plan is a list of jobs, each a run directory and the command that brings it to its end. Runs that
several figures share are planned once: the name of a run directory is made from its settings.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from resel._process import LAUNCHER
from resel.analysis.runs import Ended, outcome_of, result_so_far
from resel.benchmarks import (
    KeptCosts,
    UpdateCost,
    cost_key,
    measure_cost,
    measure_model,
    work_of,
)
from resel.choices import Scale
from resel.config import Config
from resel.data import ReplayBuffer
from resel.errors import ConfigError
from resel.experiments._settings import MEASURE_AGENTS, NEED_AGENTS, Experiment, Setting
from resel.experiments.archive import find_archived
from resel.methods import run_label
from resel.runs import available_memory, evaluation_steps, threads_so_far, updates_planned
from resel.tasks import get_task, short_name, source_digest
from resel.training.threads import suitable_threads, width_of

_CHECKPOINTS = 3
"""Two are kept while the next is written."""
_AGENTS = 2
_UNKNOWN_SIZE = 32
_LOGS = 5_000_000


@dataclass(frozen=True)
class Job:
    """One run: where it is and what brings it to its end, however often it is called."""

    run: Path
    command: tuple[str, ...]
    steps: int
    threads: int = 1
    evaluation: int | None = 0
    """Environment steps of evaluations at most; None where episodes have no declared end."""
    seconds: float = 0.0
    """Updates and acting from start to end, without the simulator."""
    memory: int = 0
    disk: int = 0
    estimated: bool = False
    """Whether seconds and memory were not measured."""
    ended: Ended | None = None
    """How it ended, where the archive has its numbers: there is nothing to be done."""


@dataclass(frozen=True)
class Member:
    """A run's place in an experiment."""

    run: Path
    setting: Setting
    seed: int
    steps: int


@dataclass(frozen=True)
class Plan:
    """All jobs of some experiments, and which runs each experiment is made of."""

    jobs: tuple[Job, ...]
    members: dict[str, tuple[Member, ...]]

    def left(self, finished: Callable[[Job], bool]) -> tuple[Job, ...]:
        """The jobs that still have to be done."""
        return tuple(job for job in self.jobs if not finished(job))


def run_name(config: Config) -> str:
    """The same for the same settings, whatever the experiment; threads do not count.

    Settings at their default do not either, so that a new one leaves the names as they were. An
    environment of one's own is another one once its file has changed.
    """
    names = {"method": config.method, "encoder": config.encoder}
    usual = Config.build("", names).flat() | {"threads": config.training.threads}
    settings = {name: value for name, value in config.flat().items() if value != usual[name]}
    source = source_digest(config.task)
    settings |= {} if source is None else {"source": source}
    text = json.dumps({"task": config.task, **names, **settings}, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    task = short_name(config.task).replace("/", "-").replace(":", "-")
    return f"{task}-{run_label(config)}-seed{config.training.seed}-{digest}"


def make_plan(
    experiments: Sequence[Experiment],
    scale: Scale,
    out: Path,
    threads: int,
    kept: KeptCosts | None = None,
    tell: Callable[[str], object] | None = None,
    archive: Path | None = None,
    estimate: bool = False,
) -> Plan:
    """Jobs under `out`/runs; networks below the paper's width take one thread whatever is asked.

    What an update costs is measured unless it is among the `kept` costs, or may be an `estimate`
    after them; `tell` hears of what is measured first. Runs whose numbers are in the archive are
    taken from there, where numbers are enough.
    """
    pricing = _Pricing(kept, tell, estimate)
    jobs: dict[Path, Job] = {}
    members: dict[str, tuple[Member, ...]] = {}
    for experiment in experiments:
        found = []
        for setting, seed in experiment.studies[scale].runs():
            config = setting.config(seed)
            run, steps = out / "runs" / run_name(config), config.training.steps
            known = None
            if archive is not None and experiment.kind not in NEED_AGENTS:
                measured = experiment.kind in MEASURE_AGENTS
                known = find_archived(archive, run.name, steps, measured)
            if known is not None and outcome_of(result_so_far(run), steps) is None:
                run = known[0]
                jobs[run] = Job(run, (), steps, ended=known[1])
            found.append(Member(run, setting, seed, steps))
            if run not in jobs:
                small = suitable_threads(0, width_of(config)) == 1
                used = 1 if small else threads_so_far(run) or threads
                jobs[run] = _job(run, setting, config, used, pricing.cost_of(config, used))
        members[experiment.name] = tuple(found)
    return Plan(tuple(jobs.values()), members)


@dataclass
class _Pricing:
    """What updates cost, each found once for all that train the same network on batches of the
    same size."""

    kept: KeptCosts | None
    tell: Callable[[str], object] | None
    estimate: bool
    known: dict[str, UpdateCost] = field(default_factory=dict)

    def cost_of(self, config: Config, threads: int) -> UpdateCost:
        """As it was found before, or is found now."""
        key = cost_key(config, threads)
        if key not in self.known:
            cost = self.kept.find(config, threads) if self.kept else None
            if cost is None and self.kept and self.estimate:
                cost = self._estimated(self.kept, config, threads)
            self.known[key] = cost or self._measured(config, threads)
        return self.known[key]

    def _estimated(self, kept: KeptCosts, config: Config, threads: int) -> UpdateCost:
        if (older := kept.find_any(config, threads)) is not None:
            return older
        model = kept.find_model(threads)
        if model is None:
            self._say("Measuring three updates, after which all others are estimated here (kept)")
            model = measure_model(threads, measure_cost)
            kept.keep_model(threads, model)
        return model.estimate(work_of(config))

    def _measured(self, config: Config, threads: int) -> UpdateCost:
        what = ", ".join(dict.fromkeys([config.method, run_label(config)]))
        later = " (kept for later)" if self.kept and self.kept.keeps(config) else ""
        self._say(f"Measuring an update: {what}, as on {short_name(config.task)}{later}")
        cost = measure_cost(config, threads)
        if self.kept is not None:
            self.kept.keep(config, threads, cost)
        return cost

    def _say(self, what: str) -> None:
        if self.tell is not None:
            self.tell(what)


def _job(run: Path, setting: Setting, config: Config, threads: int, cost: UpdateCost) -> Job:
    training = config.training
    task = get_task(config.task)
    observation, action = (
        (task.observation_size, task.action_size) if task else (_UNKNOWN_SIZE, _UNKNOWN_SIZE)
    )
    held = min(training.buffer_steps, training.steps)
    buffer = ReplayBuffer.planned_bytes(held, observation, action)
    judged = evaluation_steps(config, cost.playing.adapting)
    playing = cost.playing.acting * training.steps + cost.playing.judging * (judged or 0)
    return Job(
        run,
        train_command(setting, training.seed, run, threads),
        training.steps,
        threads,
        judged,
        cost.seconds * updates_planned(config, cost.schedule) + playing,
        cost.memory + 2 * buffer,  # a checkpoint copies it
        _CHECKPOINTS * (buffer + cost.saved) + _AGENTS * cost.saved + _LOGS,
        cost.estimated,
    )


def train_command(setting: Setting, seed: int, run: Path, threads: int) -> tuple[str, ...]:
    """What begins a run, or goes on with it."""
    flags = [*setting.flags(seed), "--threads", str(threads)]
    return (*LAUNCHER, "train", *flags, "--run-dir", str(run), "--resume", "auto")


def threads_for(slots: int) -> int:
    """CPU threads of each run of the paper's width when so many run side by side."""
    return max(1, (os.cpu_count() or 1) // slots)


def default_slots(gpus: int) -> int:
    """Runs side by side: one for each GPU, or else for each core."""
    return gpus or os.cpu_count() or 1


def surely_fits(jobs: Sequence[Job], slots: int, out: Path) -> bool:
    """Whether there is room for them side by side even if estimates of memory are too low."""
    doubled = [replace(job, memory=2 * job.memory) if job.estimated else job for job in jobs]
    try:
        check_room(doubled, slots, out, "")
    except ConfigError:
        return False
    return True


def check_room(jobs: Sequence[Job], asked: int, out: Path, smaller: str) -> None:
    """Refuse what would fill the disk or the memory of this machine half-way.

    `asked` is the number of runs side by side; 0 leaves it to the engine, which looks at memory.
    `smaller` says how to ask for less.
    """
    if not jobs:
        return
    disk = sum(max(0, job.disk - _size_of(job.run)) for job in jobs)
    free = shutil.disk_usage(_existing(out)).free
    if disk > free:
        raise ConfigError(
            f"The runs need about {_gb(disk)} on the disk of {out} and {_gb(free)} are free: name "
            f"a folder on another disk with --out, or {smaller}."
        )
    available = available_memory()
    largest = max(job.memory for job in jobs)
    if available is not None and largest > available:
        raise ConfigError(
            f"One of the runs needs about {_gb(largest)} of memory and {_gb(available)} are free: "
            f"use a larger machine (--engine slurm or ray), or {smaller}."
        )
    together = sum(sorted((job.memory for job in jobs), reverse=True)[:asked])
    if available is not None and together > available:
        fitting = max(1, int(available // largest))
        raise ConfigError(
            f"{asked} runs side by side need about {_gb(together)} of memory and {_gb(available)} "
            f"are free: use --jobs {fitting}."
        )


def _size_of(run: Path) -> int:
    """Bytes of a run's files, some of which may vanish meanwhile if it is still saving."""
    total = 0
    for folder, _, files in os.walk(run):
        for name in files:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(folder, name)).st_size
    return total


def check_out(out: Path) -> None:
    """Refuse a place that cannot hold a folder, before anything is measured or made."""
    place = _existing(out)
    if not (place.is_dir() and os.access(place, os.W_OK)):
        why = "may not be written to" if place.is_dir() else "is a file"
        raise ConfigError(f"--out {out} cannot be used: {place} {why}. Name another folder.")


def _existing(path: Path) -> Path:
    path = path.absolute()
    return next(place for place in (path, *path.parents) if place.exists())


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f} GB"
