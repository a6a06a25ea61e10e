"""A run at a terminal: how it goes on, what it says at its end, and its exit code."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from resel._process import prepare_process
from resel.cli._introduction import introduce, who_learns
from resel.cli._signals import stopping
from resel.cli.console import ERR, OUT, escape
from resel.config import Config
from resel.envs import own_traceback
from resel.errors import DivergedError, EnvironmentFault
from resel.runs import Resume, Run, finished_result, threads_so_far
from resel.training import ProgressLine, compiled_beside
from resel.training.threads import width_of
from resel.training.video import DRAWINGS, can_be_filmed


def train_run(
    config: Config,
    path: Path,
    how: Resume,
    wandb: bool,
    force: bool,
    before: Callable[[], None] = lambda: None,
) -> int:
    """Begin the run, or go on with it, to its end or to a signal; the exit code.

    What `before` says comes once nothing is left that could be refused.
    """
    if how == "auto" and (result := finished_result(config, path)) is not None:
        _tell_why_it_rests(path, result, config)
        return 0
    asked = config.training.threads or (threads_so_far(path) if how == "auto" else None)
    threads = prepare_process(asked or 0, width_of(config))
    try:
        run = Run(config, path, how, wandb, force)
    except EnvironmentFault as fault:
        _show_traceback(fault)
        raise
    settings = config.training
    try:
        before()
        introduce(run, threads)
        line = ProgressLine(run.trainer.step, settings.steps, ERR, settings.warmup_steps)
        with compiled_beside(run.trainer) as wait, stopping(run.trainer) as caught, line:
            result = run.train([*wait, line])
    except EnvironmentFault as fault:
        _show_traceback(fault)
        if run.is_void:
            OUT.print("No step was taken, so nothing is kept: mend it and start again.")
        else:
            _tell_how_to_go_on(path, run.trainer.step)
        raise
    except KeyboardInterrupt:
        again = shlex.join(["resel", "resume", str(path)])
        OUT.print(f"Left without saving. From the last checkpoint: {again}", soft_wrap=True)
        raise
    except DivergedError:
        OUT.print(f"What was seen is in {path / 'metrics.jsonl'}.", soft_wrap=True)
        raise
    finally:
        run.close()
    OUT.print(_summary(result, config))
    OUT.print(f"Run directory: {path}", soft_wrap=True)
    if result["status"] != "interrupted":
        _tell_what_next(path, result, config)
        return 0
    _tell_how_to_go_on(path, result["steps"])
    return 128 + caught[0] if caught else 1


def _show_traceback(fault: EnvironmentFault) -> None:
    """Where in its own code an environment raised."""
    if shown := own_traceback(fault):
        OUT.print(escape(shown.rstrip()), soft_wrap=True)


def _summary(result: dict[str, Any], config: Config) -> str:
    """A result in one line, and why it is not longer."""
    score, count = result["eval_return_mean"], result.get("final_evaluations")
    missing = "no evaluation after the first update"
    shown = missing if score is None else f"evaluation return {score:.2f}"
    over = f" (mean of the last {count} evaluations)" if count and count > 1 else ""
    reason = result.get("stopped_because")
    return (
        f"{result['status'].capitalize()}: {result['steps']:,} steps, {result['updates']:,} "
        f"updates of {who_learns(config)}, {result['wall_seconds']:.0f} s, {shown}{over}"
        + (f"\nIt stopped because {reason}." if reason else "")
    )


def _tell_why_it_rests(path: Path, result: dict[str, Any], config: Config) -> None:
    """A run that needs no more steps for what is asked."""
    if result["status"] == "completed":
        OUT.print(f"{path} is finished. {_summary(result, config)}", soft_wrap=True)
        return
    OUT.print(f"{path} has come to its end. {_summary(result, config)}", soft_wrap=True)
    OUT.print(f"It goes on if more is asked for: {_longer(path, result, config)}", soft_wrap=True)


def _tell_how_to_go_on(path: Path, step: int) -> None:
    """The command that continues a stopped run."""
    again = shlex.join(["resel", "resume", str(path)])
    OUT.print(f"Stopped at step {step:,}. Go on with: {again}", soft_wrap=True)


def _tell_what_next(path: Path, result: dict[str, Any], config: Config) -> None:
    """What people do with a run that has come to its end."""
    if not result["updates"]:
        OUT.print("Nothing was learned: the run ended before its first update.")
    OUT.print("What next: measure it, watch it, look at its curves, go on learning:")
    seen = "film.gif" if can_be_filmed(config) else f"episode{DRAWINGS[0]}"
    for words in (
        ["eval", path],
        ["watch", path, "--out", seen],
        ["report", path, "--out", "report.html"],
    ):
        OUT.print(f"  {shlex.join(['resel', *map(str, words)])}", soft_wrap=True)
    OUT.print(f"  {_longer(path, result, config)}", soft_wrap=True)


def _longer(path: Path, result: dict[str, Any], config: Config) -> str:
    """The command with which a run goes on that has come to its end."""
    words, settings = ["resel", "resume", str(path)], config.training
    if result["steps"] >= settings.steps or result.get("held_return") != settings.stop_return:
        words += ["--steps", str(2 * max(result["steps"], settings.steps))]
    else:
        words += ["--stop-return", "None"]
    return shlex.join(words)
