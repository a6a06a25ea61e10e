"""One short function per verb; all work is done elsewhere."""

from __future__ import annotations

import json
import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from resel._process import prepare_process, render_offscreen
from resel.agent import RESeL
from resel.analysis import diagnose as diagnose_run
from resel.benchmarks import PARTS, run
from resel.cli.arguments import (
    PLAIN,
    DiagnoseArguments,
    EvalArguments,
    PlotArguments,
    ReportArguments,
    ReproduceArguments,
    TasksArguments,
    WatchArguments,
    config_of,
    resume_arguments,
    train_arguments,
)
from resel.cli.console import (
    ERR,
    OUT,
    announce_compilation,
    introduce,
    list_experiments,
    list_tasks,
    show_diagnosis,
    show_task,
    summary,
    tell_how_to_go_on,
    warn,
)
from resel.config import Config
from resel.envs import CheckedEnv
from resel.errors import ConfigError, DivergedError, EnvironmentFault, RunDirectoryError
from resel.experiments import Sweep, choose, reproduce
from resel.methods import run_label
from resel.reports import make_report
from resel.reports.curves import draw, read_evaluated, write_csv
from resel.runs import Resume, Run, default_run_path, finished_result, saved_config
from resel.tasks import all_tasks
from resel.training import ProgressLine, evaluate, evaluation_seeds, make_task
from resel.training.threads import width_of
from resel.training.video import check_film_path, film

_INTERRUPTED: dict[int, int] = {signal.SIGINT: 130, signal.SIGTERM: 143}


def train(argv: Sequence[str]) -> int:
    arguments = train_arguments(argv)
    config = config_of(arguments, arguments.task)
    if arguments.resume == "auto" and arguments.run_dir is None:
        raise ConfigError("--resume auto needs --run-dir: it goes on with the run in that folder.")
    path = arguments.run_dir or default_run_path(
        config.task, run_label(config), config.training.seed
    )
    return _train(config, path, arguments.resume, arguments.wandb, arguments.force)


def resume(argv: Sequence[str]) -> int:
    arguments = resume_arguments(argv)
    task = saved_config(arguments.run).task
    config = config_of(arguments, task)
    return _train(config, arguments.run, "auto", arguments.wandb, arguments.force)


def _train(config: Config, path: Path, how: Resume, wandb: bool, force: bool) -> int:
    if how == "auto" and (result := finished_result(config, path)) is not None:
        OUT.print(f"{path} is finished. {summary(result)}", soft_wrap=True)
        return 0
    threads = prepare_process(config.training.threads, width_of(config))
    run = Run(config, path, how, wandb, force)
    try:
        introduce(run, threads)
        start = run.trainer.step
        with _stopping(run) as caught, ProgressLine(start, config.training.steps, ERR) as line:
            result = run.train([line])
    except EnvironmentFault:
        OUT.print(f"What the environment raised is in {path / 'metrics.jsonl'}.", soft_wrap=True)
        tell_how_to_go_on(path, run.trainer.step)
        raise
    except DivergedError:
        OUT.print(f"What was seen is in {path / 'metrics.jsonl'}.", soft_wrap=True)
        raise
    finally:
        run.close()
    OUT.print(summary(result))
    OUT.print(f"Run directory: {path}", soft_wrap=True)
    if result["status"] != "interrupted":
        return 0
    tell_how_to_go_on(path, result["steps"])
    return _INTERRUPTED[caught[0]] if caught else 1


def evaluate_run(argv: Sequence[str]) -> int:
    arguments = tyro.cli(EvalArguments, args=argv, prog="resel eval", config=PLAIN)
    agent = _load(arguments.run, arguments.agent)
    env = _evaluation_env(agent.config)
    seeds = evaluation_seeds(arguments.seed, _positive("episodes", arguments.episodes))
    result = evaluate(agent.actor, env, seeds)
    answer = {
        "task": agent.config.task,
        "episodes": arguments.episodes,
        "return_mean": result.return_mean,
        "return_std": result.return_std,
        "length_mean": result.length_mean,
        "success_rate": result.success_rate,
    }
    if arguments.json:
        print(json.dumps(answer))
    else:
        success = "" if result.success_rate is None else f", success {result.success_rate:.0%}"
        OUT.print(
            f"{agent.config.task}: return {result.return_mean:.2f} ± {result.return_std:.2f} over "
            f"{arguments.episodes} episodes of {result.length_mean:.0f} steps{success}"
        )
    return 0


def watch(argv: Sequence[str]) -> int:
    arguments = tyro.cli(WatchArguments, args=argv, prog="resel watch", config=PLAIN)
    check_film_path(arguments.out)
    render_offscreen()
    agent = _load(arguments.run, arguments.agent)
    env = _evaluation_env(agent.config, render_mode="rgb_array")
    seeds = evaluation_seeds(arguments.seed, _positive("episodes", arguments.episodes))
    result = film(agent.actor, env, seeds, arguments.out)
    OUT.print(f"Return {result.return_mean:.2f}. Film: {arguments.out}", soft_wrap=True)
    return 0


def plot(argv: Sequence[str]) -> int:
    arguments = tyro.cli(PlotArguments, args=argv, prog="resel plot", config=PLAIN)
    if not arguments.runs:
        raise ConfigError("resel plot needs at least one run directory.")
    if arguments.out.suffix not in (".png", ".svg", ".pdf"):
        raise ConfigError(f"--out {arguments.out}: use a file name with .png, .svg or .pdf.")
    runs = [read_evaluated(run) for run in arguments.runs]
    with _writing("--out", arguments.out):
        draw(runs, arguments.out)
    if arguments.csv is not None:
        with _writing("--csv", arguments.csv):
            write_csv(runs, arguments.csv)
    OUT.print(f"Picture: {arguments.out}", soft_wrap=True)
    return 0


def report(argv: Sequence[str]) -> int:
    arguments = tyro.cli(ReportArguments, args=argv, prog="resel report", config=PLAIN)
    if arguments.out.suffix not in (".html", ".htm"):
        raise ConfigError(f"--out {arguments.out}: use a file name with .html.")
    made = make_report(arguments.folder)
    made.write(arguments.out)
    if made.failures:
        first = made.failures[0]
        warn(
            f"The page lists what could not be read ({len(made.failures)}) with the reason; "
            f"the first is {first.name}: {first.reason}"
        )
    if arguments.figures is not None:
        written = made.write_figures(arguments.figures)
        OUT.print(f"Figures: {len(written)} files in {arguments.figures}", soft_wrap=True)
    OUT.print(f"Report: {arguments.out}", soft_wrap=True)
    return 0


def diagnose(argv: Sequence[str]) -> int:
    arguments = tyro.cli(DiagnoseArguments, args=argv, prog="resel diagnose", config=PLAIN)
    if arguments.out is not None and arguments.out.is_file():
        raise ConfigError(f"--out {arguments.out} is a file: give a folder.")
    config = saved_config(arguments.run)
    prepare_process(config.training.threads, width_of(config))
    announce_compilation()
    found = diagnose_run(arguments.run, arguments.episodes, arguments.seed)
    written = [] if arguments.out is None else found.write(arguments.out)
    if arguments.json:
        print(json.dumps(found.to_json()))
        return 0
    show_diagnosis(found)
    for path in written:
        OUT.print(f"Written: {path}", soft_wrap=True)
    return 0


def tasks(argv: Sequence[str]) -> int:
    arguments = tyro.cli(TasksArguments, args=argv, prog="resel tasks", config=PLAIN)
    if arguments.show is not None:
        show_task(arguments.show, arguments.preset, arguments.method)
        return 0
    if arguments.json:
        names = ("id", "family", "observation_size", "action_size", "horizon", "steps")
        print(json.dumps([{n: getattr(t, n) for n in names} for t in all_tasks()], indent=1))
        return 0
    list_tasks()
    return 0


def bench(argv: Sequence[str]) -> int:
    parts = tyro.extras.subcommand_type_from_defaults(
        {part.name: part for part in PARTS},
        {part.name: str(type(part).__doc__) for part in PARTS},
    )
    chosen = tyro.cli(parts, args=argv, prog="resel bench", config=PLAIN)
    if chosen.needs_kernels:
        announce_compilation()
    result = run(chosen)
    for doubt in result["doubts"]:
        warn(f"{doubt}.")
    written = []
    if chosen.out is not None:
        with _writing("--out", chosen.out):
            written = chosen.write(result, chosen.out)
    if chosen.json:
        print(json.dumps(result))
        return 0
    for table in chosen.tables(result):
        OUT.print(table)
    for path in written:
        OUT.print(f"Written: {path}", soft_wrap=True)
    return 0


def reproduce_paper(argv: Sequence[str]) -> int:
    arguments = tyro.cli(ReproduceArguments, args=argv, prog="resel reproduce", config=PLAIN)
    if not arguments.names:
        list_experiments()
        return 0
    sweep = Sweep(
        choose(arguments.names),
        arguments.scale,
        arguments.out or Path("reproduce-output") / arguments.scale,
        shlex.join(["resel", "reproduce", *argv]),
        arguments.engine,
        arguments.jobs,
        arguments.attempts,
        arguments.ray_address,
        arguments.write,
        arguments.dry_run,
    )
    stopped: list[int] = []

    def stop(number: int, frame: Any) -> None:
        stopped.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        return reproduce(sweep, OUT)
    except KeyboardInterrupt:
        OUT.print("Stopped; all runs are saved. The same command goes on with them.")
        return _INTERRUPTED[stopped[0]] if stopped else 130
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _stopping(run: Run) -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM end the run after the current step; a second one ends it at once."""
    caught: list[int] = []

    def handle(number: int, frame: Any) -> None:
        caught.append(number)
        run.trainer.request_stop()
        signal.signal(number, signal.default_int_handler)

    before = {number: signal.signal(number, handle) for number in _INTERRUPTED}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _writing(flag: str, path: Path) -> Iterator[None]:
    """A file that cannot be written is the user's to choose again."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{flag} {path} cannot be written ({error.strerror or error}): choose another place."
        ) from error


@dataclass(frozen=True)
class _Loaded:
    config: Config
    actor: Any


def _load(path: Path, which: Literal["last", "best"]) -> _Loaded:
    folder = path / "agents" / which if (path / "config.json").is_file() else path
    if folder != path and not folder.exists():
        other = next((name for name in ("last", "best") if (path / "agents" / name).exists()), None)
        hint = f", or use --agent {other}" if other else ""
        raise RunDirectoryError(
            f"The run in {path} has no agent '{which}' yet: wait for its first checkpoint (or its "
            f"end){hint}."
        )
    agent = RESeL.load(folder)
    return _Loaded(agent.config, agent.actor)


def _evaluation_env(config: Config, render_mode: str | None = None) -> CheckedEnv:
    return CheckedEnv(
        make_task(config, evaluation=True, render_mode=render_mode),
        longest=config.training.buffer_steps,
    )


def _positive(name: str, value: int) -> int:
    if value < 1:
        raise ConfigError(f"--{name} {value} is too small: it must be at least 1.")
    return value
