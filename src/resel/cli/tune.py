"""`resel tune`: search for the settings of a method on a task."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from resel.choices import PrunerName
from resel.cli._arguments import PLAIN, word
from resel.cli._sweeps import stoppable
from resel.cli.console import OUT, warn
from resel.config import Count, EnvKwargs
from resel.errors import MissingDependencyError
from resel.tasks import short_name

if TYPE_CHECKING:
    from resel.tuning import Summary

_OWN = ("steps", "size", "encoder", "eval_every", "eval_episodes", "env_kwargs")
"""Settings that have a flag here; others are given with --settings."""


@dataclass(frozen=True)
class TuneArguments:
    """Search for the settings of a method on a task (extra `tune`)."""

    task: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK")]
    """A task of ours (see `resel tasks`), any Gymnasium id, or one of your own: file.py:Class."""
    budget: Annotated[str | None, word("TIME")] = None
    """Time by the clock over all starts, as in 30m, 2h or 1h30m."""
    trials: Annotated[Count | None, word("INT")] = None
    """Trials in all, over all starts and machines."""
    workers: Count = 0
    """Runs side by side; 0 is automatic: one per GPU, or else per core."""
    method: Annotated[str | None, word("NAME")] = None
    """What learns; resel, or the preset file's, if not given."""
    encoder: Annotated[str | None, word("NAME")] = None
    """The context encoder of a method that has one."""
    steps: Annotated[Count | None, word("INT")] = None
    """Environment steps of each run; those of the preset if not given."""
    seeds: Count = 1
    """Runs of each trial, with the seeds 100, 101, ...; more find what works on any of them."""
    search: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[NAME ...]")] = ()
    """What is searched: NAME (its usual range), NAME=LOW:HIGH or NAME=A,B,C; if not given, what is
    usual for the method."""
    settings: EnvKwargs = field(default_factory=dict)
    """Settings that all trials have, as in gamma=0.95; they are not searched."""
    preset: Annotated[str | None, word("{paper,released,small,auto,FILE}")] = None
    """Settings to start from, as for `resel train`; they are the first trial."""
    size: Annotated[str | None, word("{paper,small,tiny}")] = None
    """Network size, as a factor on the method's own."""
    eval_every: Annotated[Count | None, word("INT")] = None
    """Steps between evaluations, after each of which a trial may be given up."""
    eval_episodes: Annotated[Count | None, word("INT")] = None
    """Episodes of an evaluation."""
    env_kwargs: EnvKwargs = field(default_factory=dict)
    """Arguments of the environment."""
    pruner: PrunerName = "median"
    """Which trials are given up: those below the median at the same step, by successive halving
    (asha), or none."""
    out: Annotated[Path | None, word("PATH")] = None
    """Folder for the trials, the preset file and the page, of this study alone; tune-output/TASK,
    or TASK-METHOD for another method than resel, if not given."""
    storage: Annotated[str | None, word("URL")] = None
    """Where Optuna keeps the study: a file in --out, or a database that several machines reach, as
    in postgresql://USER@HOST/NAME."""
    study: Annotated[str | None, word("NAME")] = None
    """The study in that storage; the task's and method's name if not given."""
    engine: Literal["local", "ray"] = "local"
    """local processes, or a ray cluster (extra `ray`) that shares the file system of --out."""
    ray_address: Annotated[str | None, word("ADDRESS")] = None
    """Cluster to join (HOST:PORT or auto); if not given, one is started on this machine."""
    attempts: Count = 3
    """How often a run may fail without progress before its trial is given up."""

    @property
    def fixed(self) -> dict[str, Any]:
        """Settings that all trials have."""
        own = {name: getattr(self, name) for name in _OWN}
        return {
            **self.settings,
            **{n: value for n, value in own.items() if value not in (None, {})},
        }


def run(argv: Sequence[str]) -> int:
    """Search until the time or the number of trials is reached."""
    given = tyro.cli(TuneArguments, args=argv, prog="resel tune", config=PLAIN)
    from resel.methods import default_method
    from resel.tuning import Place, Search, parse_budget, tune, without_password

    name = short_name(given.task).replace("/", "-").replace(":", "-")
    if given.method not in (None, default_method()):
        name += f"-{given.method}"
    search = Search(
        given.task,
        given.out or Path("tune-output") / name,
        given.method,
        given.preset,
        given.fixed,
        given.search,
        given.seeds,
        given.storage,
        given.study,
        given.pruner,
    )
    place = Place(
        None if given.budget is None else parse_budget(given.budget),
        given.trials,
        given.workers,
        given.engine,
        given.ray_address,
        given.attempts,
    )
    again = shlex.join(["resel", "tune", *map(without_password, argv)])

    def work(check: Callable[[], None]) -> int:
        summary = tune(search, place, OUT, _finish, check)
        return 0 if summary.best is not None else 1

    told = f"Stopped; all trials are saved. The same command goes on: {again}"
    return stoppable(work, told, gently=True)


def _finish(summary: Summary) -> None:
    """Write the page, and say what was found and what comes next."""
    from resel.reports import Report, tuning_page
    from resel.tuning import PRESET

    out, best = summary.search.out, summary.best
    commands = _commands(summary, out / PRESET)
    try:
        page = out / "tune.html"
        Report(tuning_page(summary, commands)).write(page)
        OUT.print(f"Page: {page}", soft_wrap=True)
    except MissingDependencyError as error:
        warn(f"No page was written. {error}")
    counts = {name: summary.count(name) for name in ("complete", "pruned", "failed", "running")}
    words = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    OUT.print(f"Trials: {words or 'none'}.")
    if counts["running"]:
        OUT.print("Those that are running are saved: they go on with more --budget or --trials.")
    if best is None:
        OUT.print(
            "No trial has come to its end, so there is no preset yet: give more --budget, or fewer "
            "--steps in another --out."
        )
        return
    before = summary.baseline
    beside = "" if before is None else f"; the preset itself has {before.score:.5g}"
    OUT.print(f"Best: trial {best.number}, score {best.score:.5g}{beside}.")
    OUT.print(f"Preset file: {out / PRESET}", soft_wrap=True)
    OUT.print("What next: train with it, and see on fresh seeds what it is worth:")
    for command in commands:
        OUT.print(f"  {command}", soft_wrap=True)


def _commands(summary: Summary, preset: Path) -> list[str]:
    setting = summary.search.setting
    own = ["--preset", str(preset)]
    fresh = ["--seeds", "5", "--out", str(preset.parent / "fresh-seeds")]
    return [
        shlex.join(["resel", "train", setting.task, *own, "--seed", "1"]),
        shlex.join(
            ["resel", "compare", setting.task, "--methods", setting.method_name, *own, *fresh]
        ),
    ]
