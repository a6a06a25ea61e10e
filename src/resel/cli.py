"""The `resel` command: one short function per verb, all work done elsewhere."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import shlex
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast

import tyro
from gymnasium.spaces import Box
from rich.console import Console
from rich.table import Column, Table

import resel
from resel._process import prepare_process, render_offscreen
from resel.agent import RESeL, configure
from resel.benchmarks import PARTS, run
from resel.config import (
    SIZES,
    AlgorithmConfig,
    Config,
    Count,
    NetworkConfig,
    SizeName,
    TrainingConfig,
)
from resel.diagnostics import Diagnosis
from resel.diagnostics import diagnose as diagnose_run
from resel.errors import ConfigError, DivergedError, EnvironmentFault, ReselError
from resel.experiments import CATALOGUE, EngineName, Scale, Sweep, choose, reproduce
from resel.networks import kernels_are_compiled
from resel.reports import make_report
from resel.reports.curves import draw, read_curve, write_csv
from resel.runs import default_run_path, format_bytes
from resel.tasks import all_tasks, get_task, make_env, task_settings
from resel.training import (
    ProgressLine,
    Resume,
    Run,
    Stage,
    choose_device,
    describe_groups,
    evaluate,
    evaluation_seeds,
    finished_result,
    make_task,
    saved_config,
)
from resel.training.video import check_film_path, film

_out = Console(highlight=False)
_err = Console(stderr=True, highlight=False)
_UNBROKEN = 10_000
_ROOM_FOR_WORDS = 110
_INTERRUPTED: dict[int, int] = {signal.SIGINT: 130, signal.SIGTERM: 143}
_SIZE_TEXT = "; ".join(
    f"{name}: " + ", ".join(f"{key} {value}" for key, value in numbers.items())
    for name, numbers in SIZES.items()
)


_RunPath = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
# Plain flags, `--json` and `--csv PATH`: only the settings of `train` need a way back to a default.
_PLAIN = (tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone)


@dataclass(frozen=True)
class TrainArguments:
    """Train an agent. Settings: the task's preset, then --size, then single flags."""

    task: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK")]
    """A task of ours (see `resel tasks`), any Gymnasium id, or module:Id-v0."""
    network: NetworkConfig
    algorithm: AlgorithmConfig
    training: TrainingConfig
    preset: str = "paper"
    """Settings to start from: paper, or released where the released code differs."""
    size: Annotated[
        str | None,  # not a Literal: refusing another word, the parser would also offer `None`
        tyro.conf.arg(help=f"Network size ({_SIZE_TEXT}).", metavar="{" + ",".join(SIZES) + "}"),
    ] = None
    run_dir: Path | None = None
    """Where the run is written; a new folder under runs/ if not given."""
    resume: Resume = "never"
    """auto starts the run in --run-dir, or goes on with the one that is there."""
    wandb: bool = False
    """Also log to Weights & Biases (extra `wandb`)."""
    force: bool = False
    """Go on even where the machine differs from before, so that the run is not exact."""


@dataclass(frozen=True)
class ResumeArguments:
    """Go on with a run. Its settings are the defaults; some may change on the way."""

    run: _RunPath
    """A run directory."""
    network: NetworkConfig
    algorithm: AlgorithmConfig
    training: TrainingConfig
    wandb: bool = False
    """Also log to Weights & Biases (extra `wandb`)."""
    force: bool = False
    """Go on even where the machine differs from before, so that the run is not exact."""


_Settings = TypeVar("_Settings", TrainArguments, ResumeArguments)


@dataclass(frozen=True)
class EvalArguments:
    """Measure a trained agent: deterministic actions, fixed seeds."""

    run: _RunPath
    """A run directory, or the directory of a saved agent."""
    episodes: Count = 20
    """How many to play."""
    seed: Count = 1
    """Chooses the episodes."""
    agent: Literal["last", "best"] = "last"
    """Which agent of a run."""
    json: bool = False
    """Print one JSON object and nothing else."""


@dataclass(frozen=True)
class WatchArguments:
    """Write a film of a trained agent."""

    run: _RunPath
    """A run directory, or the directory of a saved agent."""
    out: Path
    """File to write: .gif or .mp4."""
    episodes: Count = 1
    """How many to play."""
    seed: Count = 1
    """Chooses the episodes."""
    agent: Literal["last", "best"] = "last"
    """Which agent of a run."""


@dataclass(frozen=True)
class PlotArguments:
    """Draw the learning curves of one or more runs; seeds of the same run as one."""

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN [RUN ...]")]
    """Run directories."""
    out: Path = Path("curve.png")
    """Picture to write (.png, .svg or .pdf)."""
    csv: Path | None = None
    """Also write the evaluations as a table."""


@dataclass(frozen=True)
class ReportArguments:
    """Write a run, or a folder of runs, as one interactive page (extra `report`)."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """A run directory, or a folder with runs at any depth."""
    out: Path = Path("report.html")
    """Page to write."""
    figures: Path | None = None
    """Also write each figure as PNG, SVG and CSV into this folder."""


@dataclass(frozen=True)
class DiagnoseArguments:
    """Measure what one update does to the policy of a run, and which LR_CE suits it."""

    run: _RunPath
    """A run directory with a checkpoint. It is only read."""
    episodes: Count = 20
    """How many to record and compare."""
    seed: Count = 1
    """Chooses the batch and the episodes."""
    json: bool = False
    """Print one JSON object and nothing else."""
    out: Path | None = None
    """Folder to write diagnosis.json and the picture diagnosis.png to."""


@dataclass(frozen=True)
class TasksArguments:
    """List the tasks that come with resel."""

    json: bool = False
    """Print a JSON list and nothing else."""
    show: str | None = None
    """Print every setting of one task instead."""
    preset: str = "paper"
    """With --show: which preset."""


@dataclass(frozen=True)
class ReproduceArguments:
    """Run the paper's experiments and draw its figures; without names, list them."""

    names: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[NAME ...]")]
    """Figures and tables, or all."""
    scale: Scale = "smoke"
    """smoke: minutes to an hour on two cores; cpu: hours; paper: the paper's own sizes."""
    out: Path | None = None
    """Folder for runs and figures; reproduce-output/SCALE if not given."""
    engine: EngineName = "local"
    """local processes, a ray cluster (extra `ray`), or a slurm script to submit."""
    jobs: Count = 0
    """Runs side by side; 0 is automatic: one per GPU, or else per core."""
    attempts: Count = 3
    """How often a run may fail without progress before it is given up."""
    ray_address: str | None = None
    """Cluster to join (HOST:PORT or auto); if not given, one is started on this machine."""
    write: Path | None = None
    """With slurm: the script to write."""
    dry_run: bool = False
    """Only tell what would be run."""


def train(argv: Sequence[str]) -> int:
    arguments = _train_arguments(argv)
    config = Config(arguments.task, arguments.network, arguments.algorithm, arguments.training)
    if arguments.resume == "auto" and arguments.run_dir is None:
        raise ConfigError("--resume auto needs --run-dir: it goes on with the run in that folder.")
    path = arguments.run_dir or default_run_path(
        config.task, config.network.encoder, config.training.seed
    )
    return _train(config, path, arguments.resume, arguments.wandb, arguments.force)


def resume(argv: Sequence[str]) -> int:
    arguments = _resume_arguments(argv)
    task = saved_config(arguments.run).task
    config = Config(task, arguments.network, arguments.algorithm, arguments.training)
    return _train(config, arguments.run, "auto", arguments.wandb, arguments.force)


def _train(config: Config, path: Path, how: Resume, wandb: bool, force: bool) -> int:
    if how == "auto" and (result := finished_result(config, path)) is not None:
        _out.print(f"{path} is finished. {_summary(result)}", soft_wrap=True)
        return 0
    threads = prepare_process(config.training.threads, config.network.width)
    run = Run(config, path, how, wandb, force)
    try:
        _introduce(run, threads)
        start = run.trainer.step
        with _stopping(run) as caught, ProgressLine(start, config.training.steps, _err) as line:
            result = run.train([line])
    except EnvironmentFault:
        _out.print(f"What the environment raised is in {path / 'metrics.jsonl'}.", soft_wrap=True)
        _tell_how_to_go_on(path, run.trainer.step)
        raise
    except DivergedError:
        _out.print(f"What was seen is in {path / 'metrics.jsonl'}.", soft_wrap=True)
        raise
    finally:
        run.close()
    _out.print(_summary(result))
    _out.print(f"Run directory: {path}", soft_wrap=True)
    if result["status"] != "interrupted":
        return 0
    _tell_how_to_go_on(path, result["steps"])
    return _INTERRUPTED[caught[0]] if caught else 1


def evaluate_run(argv: Sequence[str]) -> int:
    arguments = tyro.cli(EvalArguments, args=argv, prog="resel eval", config=_PLAIN)
    agent = _load(arguments.run, arguments.agent)
    stage = _evaluation_stage(agent.config)
    seeds = evaluation_seeds(arguments.seed, _positive("episodes", arguments.episodes))
    result = evaluate(agent.actor, stage, seeds)
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
        _out.print(
            f"{agent.config.task}: return {result.return_mean:.2f} ± {result.return_std:.2f} over "
            f"{arguments.episodes} episodes of {result.length_mean:.0f} steps{success}"
        )
    return 0


def watch(argv: Sequence[str]) -> int:
    arguments = tyro.cli(WatchArguments, args=argv, prog="resel watch", config=_PLAIN)
    check_film_path(arguments.out)
    render_offscreen()
    agent = _load(arguments.run, arguments.agent)
    stage = _evaluation_stage(agent.config, render_mode="rgb_array")
    seeds = evaluation_seeds(arguments.seed, _positive("episodes", arguments.episodes))
    result = film(agent.actor, stage, seeds, arguments.out)
    _out.print(f"Return {result.return_mean:.2f}. Film: {arguments.out}", soft_wrap=True)
    return 0


def plot(argv: Sequence[str]) -> int:
    arguments = tyro.cli(PlotArguments, args=argv, prog="resel plot", config=_PLAIN)
    if not arguments.runs:
        raise ConfigError("resel plot needs at least one run directory.")
    if arguments.out.suffix not in (".png", ".svg", ".pdf"):
        raise ConfigError(f"--out {arguments.out}: use a file name with .png, .svg or .pdf.")
    curves = [read_curve(run) for run in arguments.runs]
    draw(curves, arguments.out)
    if arguments.csv is not None:
        write_csv(curves, arguments.csv)
    _out.print(f"Picture: {arguments.out}", soft_wrap=True)
    return 0


def report(argv: Sequence[str]) -> int:
    arguments = tyro.cli(ReportArguments, args=argv, prog="resel report", config=_PLAIN)
    if arguments.out.suffix not in (".html", ".htm"):
        raise ConfigError(f"--out {arguments.out}: use a file name with .html.")
    made = make_report(arguments.folder)
    made.write(arguments.out)
    if made.failures:
        first = made.failures[0]
        warning = (
            f"The page lists what could not be read ({len(made.failures)}) with the reason; "
            f"the first is {first.name}: {first.reason}"
        )
        _err.print(f"[yellow]Warning:[/yellow] {_escape(warning)}", soft_wrap=True)
    if arguments.figures is not None:
        written = made.write_figures(arguments.figures)
        _out.print(f"Figures: {len(written)} files in {arguments.figures}", soft_wrap=True)
    _out.print(f"Report: {arguments.out}", soft_wrap=True)
    return 0


def diagnose(argv: Sequence[str]) -> int:
    arguments = tyro.cli(DiagnoseArguments, args=argv, prog="resel diagnose", config=_PLAIN)
    if arguments.out is not None and arguments.out.is_file():
        raise ConfigError(f"--out {arguments.out} is a file: give a folder.")
    config = saved_config(arguments.run)
    prepare_process(config.training.threads, config.network.width)
    if not kernels_are_compiled():
        _err.print("Compiling kernels for this machine: about a minute, once.")
    found = diagnose_run(arguments.run, arguments.episodes, arguments.seed)
    written = [] if arguments.out is None else found.write(arguments.out)
    if arguments.json:
        print(json.dumps(found.to_json()))
        return 0
    _show_diagnosis(found)
    for path in written:
        _out.print(f"Written: {path}", soft_wrap=True)
    return 0


def tasks(argv: Sequence[str]) -> int:
    arguments = tyro.cli(TasksArguments, args=argv, prog="resel tasks", config=_PLAIN)
    if arguments.show is not None:
        return _show_task(arguments.show, arguments.preset)
    if arguments.json:
        names = ("id", "family", "observation_size", "action_size", "horizon", "steps")
        print(json.dumps([{n: getattr(t, n) for n in names} for t in all_tasks()], indent=1))
        return 0
    described = _out.width >= _ROOM_FOR_WORDS  # below, a task is still one line
    table = Table(
        Column("task", no_wrap=True),
        *("obs", "act", "horizon", "steps"),
        *(["what it asks"] if described else []),
        box=None,
    )
    family = ""
    for task in all_tasks():
        if task.family != family:
            family = task.family
            table.add_row(f"[bold]{family}[/bold]")
        table.add_row(
            task.id,
            str(task.observation_size),
            str(task.action_size),
            str(task.horizon),
            f"{task.steps:,}",
            *([task.summary] if described else []),
        )
    _out.print(table)
    return 0


def bench(argv: Sequence[str]) -> int:
    parts = tyro.extras.subcommand_type_from_defaults(
        {part.name: part for part in PARTS},
        {part.name: str(type(part).__doc__) for part in PARTS},
    )
    chosen = tyro.cli(parts, args=argv, prog="resel bench", config=_PLAIN)
    if chosen.needs_kernels and not kernels_are_compiled():
        _err.print("Compiling kernels for this machine: about a minute, once.")
    result = run(chosen)
    for doubt in result["doubts"]:
        _err.print(f"[yellow]Warning:[/yellow] {doubt}.", soft_wrap=True)
    written = [] if chosen.out is None else chosen.write(result, chosen.out)
    if chosen.json:
        print(json.dumps(result))
        return 0
    for table in chosen.tables(result):
        _out.print(table)
    for path in written:
        _out.print(f"Written: {path}", soft_wrap=True)
    return 0


def reproduce_paper(argv: Sequence[str]) -> int:
    arguments = tyro.cli(ReproduceArguments, args=argv, prog="resel reproduce", config=_PLAIN)
    if not arguments.names:
        table = Table("name", "what it shows", box=None)
        for experiment in CATALOGUE.values():
            table.add_row(experiment.name, experiment.title)
        _out.print(table)
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
        return reproduce(sweep, _out)
    except KeyboardInterrupt:
        _out.print("Stopped; all runs are saved. The same command goes on with them.")
        return _INTERRUPTED[stopped[0]] if stopped else 130
    finally:
        signal.signal(signal.SIGTERM, before)


_VERBS: dict[str, tuple[Callable[[Sequence[str]], int], str]] = {
    "train": (train, "train an agent on a task of ours or any Gymnasium environment"),
    "resume": (resume, "go on with a run that was stopped"),
    "eval": (evaluate_run, "measure a trained agent"),
    "watch": (watch, "write a film of a trained agent"),
    "plot": (plot, "draw learning curves"),
    "report": (report, "write runs as one interactive page"),
    "diagnose": (diagnose, "measure what an update does to a policy, and advise on LR_CE"),
    "tasks": (tasks, "list the tasks and their settings"),
    "reproduce": (reproduce_paper, "run the paper's experiments and draw its figures"),
    "bench": (bench, "measure speed and memory on this machine"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for console in (_out, _err):  # what is piped is for programs to read, and for `grep`
        if not console.is_terminal:
            console.width = shutil.get_terminal_size((_UNBROKEN, 24)).columns
    try:
        with _plain_warnings():
            code = _run_verb(arguments)
        sys.stdout.flush()
        return code
    except ReselError as error:
        _err.print(f"[bold red]Error:[/bold red] {_escape(str(error))}", soft_wrap=True)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 0


def _run_verb(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        _print_help()
        return 0
    if arguments[0] == "--version":
        print(f"resel {resel.__version__}")
        return 0
    verb, rest = arguments[0], arguments[1:]
    if verb not in _VERBS:
        raise ConfigError(f"There is no verb {verb!r}: use one of {', '.join(_VERBS)}.")
    return _VERBS[verb][0](rest)


def _train_arguments(argv: Sequence[str]) -> TrainArguments:
    """Parse twice: once to learn task, preset and size, then with the defaults they bring."""
    named = next((word for word in argv if get_task(word) is not None), "")
    asks = any(word in ("-h", "--help") for word in argv)
    prog = "resel train" if asks else f"resel train {named}".rstrip()
    # The first defaults are also those that hints show.
    first = _with_defaults(TrainArguments, "task", configure(named), argv, prog)
    size = cast("SizeName | None", first.size)  # looked at by `configure`
    config = configure(first.task, preset=first.preset, size=size)
    return _with_defaults(TrainArguments, "task", config, argv, prog)


def _with_defaults(
    kind: type[_Settings], first: str, config: Config, argv: Sequence[str], prog: str
) -> _Settings:
    """Arguments that begin with `first` and take every setting not given from the config."""
    default = kind(
        **{first: tyro.MISSING},
        network=config.network,
        algorithm=config.algorithm,
        training=config.training,
    )
    with _our_words():
        markers = (tyro.conf.OmitArgPrefixes,)
        return tyro.cli(kind, args=argv, default=default, prog=prog, config=markers)


@contextmanager
def _our_words() -> Iterator[None]:
    """A value that a config refuses is told as the config tells it.

    The parser would put the name of the group in front, which is no flag of anybody's.
    """
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            yield
    except SystemExit as left:
        cause: BaseException | None = left
        while cause is not None and not isinstance(cause, ConfigError):
            cause = cause.__context__
        if cause is not None:
            said.truncate(0)
            raise cause from None
        raise
    finally:
        sys.stderr.write(said.getvalue())


def _resume_arguments(argv: Sequence[str]) -> ResumeArguments:
    """Parse twice: once to learn which run, then with its settings as defaults."""

    def parse(config: Config) -> ResumeArguments:
        return _with_defaults(ResumeArguments, "run", config, argv, "resel resume")

    if any(word in ("-h", "--help") for word in argv):
        runs = [Path(word) for word in argv if Path(word, "config.json").is_file()]
        return parse(saved_config(runs[0]) if runs else Config())
    return parse(saved_config(parse(Config()).run))


def _introduce(run: Run, threads: int) -> None:
    """What is about to happen, before the first step."""
    settings, learner = run.config.training, run.trainer.learner
    _out.print(
        f"[bold]{run.config.task}[/bold] with {run.config.network.encoder}, seed {settings.seed}, "
        f"{settings.steps:,} steps on {learner.device} (threads: {threads})"
    )
    table = Table("network", "group", "parameters", "learning rate", box=None)
    for group in describe_groups(learner):
        table.add_row(
            str(group["network"]),
            str(group["group"]),
            f"{group['parameters']:,}",
            f"{group['learning_rate']:g}",
        )
    _out.print(table)
    _out.print(f"Replay buffer: up to {format_bytes(run.buffer_bytes)} of memory.")
    if learner.device.type == "cpu" and run.config.network.width >= SIZES["paper"]["width"]:
        _out.print("This is the paper's network, made for a GPU; --size tiny suits small tasks.")
    if learner.device.type == "cpu" and not kernels_are_compiled():
        _out.print("Compiling kernels for this machine: about a minute, once.")
    if run.resumed_at is not None:
        inexact = " This run is not exact: see result.json." if run.inexact else ""
        _out.print(f"Going on from step {run.resumed_at:,}.{inexact}")


def _summary(result: dict[str, Any]) -> str:
    figure, count = result["eval_return_mean"], result.get("final_evaluations")
    shown = "no evaluation" if figure is None else f"evaluation return {figure:.2f}"
    over = f" (mean of the last {count} evaluations)" if count and count > 1 else ""
    return (
        f"{result['status'].capitalize()}: {result['steps']:,} steps, {result['updates']:,} "
        f"updates, {result['wall_seconds']:.0f} s, {shown}{over}"
    )


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


def _tell_how_to_go_on(path: Path, step: int) -> None:
    again = shlex.join(["resel", "resume", str(path)])
    _out.print(f"Stopped at step {step:,}. Go on with: {again}", soft_wrap=True)


@dataclass(frozen=True)
class _Loaded:
    config: Config
    actor: Any


def _load(path: Path, which: Literal["last", "best"]) -> _Loaded:
    folder = path / "agents" / which if (path / "config.json").is_file() else path
    agent = RESeL.load(folder)
    return _Loaded(agent.config, agent.actor)


def _evaluation_stage(config: Config, render_mode: str | None = None) -> Stage:
    return Stage(
        make_task(config, evaluation=True, render_mode=render_mode),
        longest=config.training.buffer_steps,
    )


def _positive(name: str, value: int) -> int:
    if value < 1:
        raise ConfigError(f"--{name} {value} is too small: it must be at least 1.")
    return value


def _show_task(name: str, preset: str) -> int:
    env = make_env(name)  # refuses unknown names with near matches
    env.close()
    config, own = configure(name, preset=preset), task_settings(name, preset)
    meant = _what_automatic_means(config, isinstance(env.action_space, Box))
    table = Table("setting", "value", "", box=None)
    for group in ("network", "algorithm", "training"):
        table.add_row(f"[bold]{group}[/bold]")
        for field in dataclasses.fields(getattr(config, group)):
            value = getattr(getattr(config, group), field.name)
            shown = meant.get((field.name, value), str(value))
            table.add_row(field.name, shown, "task's own" if field.name in own else "")
    _out.print(table)
    return 0


def _what_automatic_means(config: Config, continuous: bool) -> dict[tuple[str, Any], str]:
    """In words, the settings whose value leaves the choice to us."""
    small = config.network.width < SIZES["paper"]["width"]
    return {
        ("entropy_coefficient", None): f"automatic: {1 if continuous else 0.2}",
        ("fixed_alpha", None): "none: it is tuned",
        ("context_length", None): "whole trajectories",
        ("max_episode_steps", None): "the task's own",
        ("threads", 0): f"automatic: {1 if small else 'all cores'}",
        ("device", "auto"): f"automatic: {choose_device('auto')}",
    }


def _show_diagnosis(found: Diagnosis) -> None:
    measured = found.amplification
    _out.print(
        f"[bold]{measured.task}[/bold] with {measured.encoder} at step {measured.step:,}: one "
        f"policy update, {len(measured.lengths)} episodes, L2 distance of {measured.distance}"
    )
    names = ("LR_CE", "LR_other", "first step", "converged", "factor", "K_h", "K_y", "misfit")
    table = Table(*names, box=None)
    for variation in measured.variations:
        factor, effective = measured.factor(variation), variation.effective
        table.add_row(
            *(f"{rate:.3g}" for rate in variation.rates),
            f"{variation.first:.4g}",
            f"{variation.converged:.4g}",
            "-" if factor is None else f"{factor:.2f}",
            f"{effective.K_h:.4f}",
            f"{effective.K_y:.4f}",
            f"{effective.relative_error:.0%}",
        )
    _out.print(table)
    _out.print(
        "K_h and K_y are effective values: fitted to the curve, with that misfit, no bounds."
    )
    for paragraph in found.words():
        _out.print(paragraph)


def _print_help() -> None:
    _out.print(f"resel {resel.__version__}: {resel.__doc__}\n\nusage: resel VERB [--help] ...\n")
    table = Table(box=None, show_header=False)
    for verb, (_function, text) in _VERBS.items():
        table.add_row(f"[bold]{verb}[/bold]", text)
    _out.print(table)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings of ours as one line of text, without source code around it."""

    def show(message: Any, category: Any, *rest: Any, **more: Any) -> None:
        _err.print(f"[yellow]Warning:[/yellow] {_escape(str(message))}", soft_wrap=True)

    def show_fault(fault: threading.ExceptHookArgs) -> None:
        if issubclass(fault.exc_type, OSError):  # TensorBoard's writer at a full disk
            show(f"A writer in the background stopped: {fault.exc_value}", None)
        else:
            hook(fault)

    before, warnings.showwarning = warnings.showwarning, show
    hook, threading.excepthook = threading.excepthook, show_fault
    try:
        yield
    finally:
        warnings.showwarning, threading.excepthook = before, hook


def _escape(text: str) -> str:
    return text.replace("[", r"\[")


if __name__ == "__main__":
    sys.exit(main())
