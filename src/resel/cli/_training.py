"""A run at a terminal: what it says, what signals do to it, and its exit code."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.table import Table

from resel._process import prepare_process
from resel.cli.console import ERR, OUT, announce_compilation, escape
from resel.config import Config
from resel.errors import DivergedError, EnvironmentFault
from resel.methods import get_method
from resel.runs import Resume, Run, finished_result, format_bytes
from resel.training import ProgressLine, describe_groups
from resel.training.threads import suitable_threads, width_of


def train_run(config: Config, path: Path, how: Resume, wandb: bool, force: bool) -> int:
    """Begin the run, or go on with it, to its end or to a signal; the exit code."""
    if how == "auto" and (result := finished_result(config, path)) is not None:
        OUT.print(f"{path} is finished. {_summary(result, config)}", soft_wrap=True)
        return 0
    threads = prepare_process(config.training.threads, width_of(config))
    run = Run(config, path, how, wandb, force)
    try:
        _introduce(run, threads)
        start = run.trainer.step
        with _stopping(run) as caught, ProgressLine(start, config.training.steps, ERR) as line:
            result = run.train([line])
    except EnvironmentFault:
        OUT.print(f"What the environment raised is in {path / 'metrics.jsonl'}.", soft_wrap=True)
        _tell_how_to_go_on(path, run.trainer.step)
        raise
    except DivergedError:
        OUT.print(f"What was seen is in {path / 'metrics.jsonl'}.", soft_wrap=True)
        raise
    finally:
        run.close()
    OUT.print(_summary(result, config))
    OUT.print(f"Run directory: {path}", soft_wrap=True)
    if result["status"] != "interrupted":
        return 0
    _tell_how_to_go_on(path, result["steps"])
    return 128 + caught[0] if caught else 1


def _introduce(run: Run, threads: int) -> None:
    """What is about to happen, before the first step."""
    settings, learner = run.config.training, run.trainer.learner
    OUT.print(
        f"[bold]{run.config.task}[/bold] with {_who_learns(run.config)}, seed {settings.seed}, "
        f"{settings.steps:,} steps on {learner.device} (threads: {threads})"
    )
    table = Table("network", "group", "parameters", "learning rate", box=None)
    for group in describe_groups(learner):
        steers = group["network"] in learner.auto_rates and group["group"] == "context_encoder"
        table.add_row(
            str(group["network"]),
            str(group["group"]),
            f"{group['parameters']:,}",
            f"{group['learning_rate']:.3g}{' (auto)' if steers else ''}",
        )
    OUT.print(table)
    OUT.print(f"Replay buffer: up to {format_bytes(run.buffer_bytes)} of memory.")
    if learner.device.type == "cpu" and suitable_threads(0, width_of(run.config)) is None:
        OUT.print("This is the paper's network, made for a GPU; --size tiny suits small tasks.")
    if learner.device.type == "cpu":
        announce_compilation(OUT)
    if run.warm_start is not None:
        OUT.print(escape(str(run.warm_start)), soft_wrap=True)
    if run.begins_again:
        OUT.print("This run was stopped before its first checkpoint: it begins again at step 0.")
    if run.resumed_at is not None:
        inexact = " This run is not exact: see result.json." if run.inexact else ""
        OUT.print(f"Going on from step {run.resumed_at:,}.{inexact}")


def _who_learns(config: Config) -> str:
    """The method by its title, and by its name where that says more, with its encoder."""
    method = get_method(config.method)
    name = None if method.title.lower() == method.name else method.name
    more = [word for word in (name, config.encoder) if word]
    return f"{method.title} ({', '.join(more)})" if more else method.title


def _summary(result: dict[str, Any], config: Config) -> str:
    """A result in one line."""
    score, count = result["eval_return_mean"], result.get("final_evaluations")
    shown = "no evaluation" if score is None else f"evaluation return {score:.2f}"
    over = f" (mean of the last {count} evaluations)" if count and count > 1 else ""
    return (
        f"{result['status'].capitalize()}: {result['steps']:,} steps, {result['updates']:,} "
        f"updates of {_who_learns(config)}, {result['wall_seconds']:.0f} s, {shown}{over}"
    )


def _tell_how_to_go_on(path: Path, step: int) -> None:
    """The command that continues a stopped run."""
    again = shlex.join(["resel", "resume", str(path)])
    OUT.print(f"Stopped at step {step:,}. Go on with: {again}", soft_wrap=True)


@contextmanager
def _stopping(run: Run) -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM end the run after the current step; a second one ends it at once."""
    caught: list[int] = []

    def handle(number: int, frame: Any) -> None:
        caught.append(number)
        run.trainer.request_stop()
        signal.signal(number, signal.default_int_handler)

    before = {n: signal.signal(n, handle) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
