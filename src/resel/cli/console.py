"""What the command says: its two consoles, its tables, its warnings."""

from __future__ import annotations

import dataclasses
import shlex
import shutil
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gymnasium.spaces import Box
from rich.console import Console
from rich.table import Column, Table

from resel.agent import configure
from resel.analysis import Diagnosis
from resel.config import GROUPS, Config
from resel.experiments import CATALOGUE
from resel.methods import get_method, preset_settings, run_label
from resel.networks import kernels_are_compiled
from resel.runs import Run, format_bytes
from resel.tasks import all_tasks, make_env
from resel.training import choose_device, describe_groups
from resel.training.threads import suitable_threads, width_of

OUT = Console(highlight=False)
ERR = Console(stderr=True, highlight=False)
_UNBROKEN = 10_000
_ROOM_FOR_WORDS = 110


def fit_output() -> None:
    """What is piped is for programs to read, and for `grep`: no line is broken there."""
    for console in (OUT, ERR):
        if not console.is_terminal:
            console.width = shutil.get_terminal_size((_UNBROKEN, 24)).columns


def warn(text: str) -> None:
    """One line of warning."""
    ERR.print(f"[yellow]Warning:[/yellow] {escape(text)}", soft_wrap=True)


def escape(text: str) -> str:
    """The text without a meaning for the console's markup."""
    return text.replace("[", r"\[")


def announce_compilation(console: Console = ERR) -> None:
    """Why the first use takes a while."""
    if not kernels_are_compiled():
        console.print("Compiling kernels for this machine: about a minute, once.")


def introduce(run: Run, threads: int) -> None:
    """What is about to happen, before the first step."""
    settings, learner = run.config.training, run.trainer.learner
    OUT.print(
        f"[bold]{run.config.task}[/bold] with {run_label(run.config)}, seed {settings.seed}, "
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
    OUT.print(table)
    OUT.print(f"Replay buffer: up to {format_bytes(run.buffer_bytes)} of memory.")
    if learner.device.type == "cpu" and suitable_threads(0, width_of(run.config)) is None:
        OUT.print("This is the paper's network, made for a GPU; --size tiny suits small tasks.")
    if learner.device.type == "cpu":
        announce_compilation(OUT)
    if run.begins_again:
        OUT.print("This run was stopped before its first checkpoint: it begins again at step 0.")
    if run.resumed_at is not None:
        inexact = " This run is not exact: see result.json." if run.inexact else ""
        OUT.print(f"Going on from step {run.resumed_at:,}.{inexact}")


def summary(result: dict[str, Any]) -> str:
    """A result in one line."""
    score, count = result["eval_return_mean"], result.get("final_evaluations")
    shown = "no evaluation" if score is None else f"evaluation return {score:.2f}"
    over = f" (mean of the last {count} evaluations)" if count and count > 1 else ""
    return (
        f"{result['status'].capitalize()}: {result['steps']:,} steps, {result['updates']:,} "
        f"updates, {result['wall_seconds']:.0f} s, {shown}{over}"
    )


def tell_how_to_go_on(path: Path, step: int) -> None:
    """The command that continues a stopped run."""
    again = shlex.join(["resel", "resume", str(path)])
    OUT.print(f"Stopped at step {step:,}. Go on with: {again}", soft_wrap=True)


def list_tasks() -> None:
    """The tasks by family, described where the screen has room for it."""
    described = OUT.width >= _ROOM_FOR_WORDS  # below, a task is still one line
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
    OUT.print(table)


def list_experiments() -> None:
    """The names that `resel reproduce` knows."""
    table = Table("name", "what it shows", box=None)
    for experiment in CATALOGUE.values():
        table.add_row(experiment.name, experiment.title)
    OUT.print(table)


def show_task(name: str, preset: str, method: str | None = None) -> None:
    """Every setting of a task, and which of them are its own."""
    env = make_env(name)  # refuses unknown names with near matches
    env.close()
    config = configure(name, method=method, preset=preset)
    own = preset_settings(get_method(config.method), name, preset)
    meant = _what_automatic_means(config, isinstance(env.action_space, Box))
    table = Table("setting", "value", "", box=None)
    for group in GROUPS:
        table.add_row(f"[bold]{group}[/bold]")
        for field in dataclasses.fields(getattr(config, group)):
            value = getattr(getattr(config, group), field.name)
            shown = meant.get((field.name, value), str(value))
            table.add_row(field.name, shown, "task's own" if field.name in own else "")
    OUT.print(table)


def _what_automatic_means(config: Config, continuous: bool) -> dict[tuple[str, Any], str]:
    """In words, the settings whose value leaves the choice to us."""
    small = suitable_threads(0, width_of(config)) == 1
    return {
        ("target_entropy_scale", None): f"automatic: {1 if continuous else 0.2}",
        ("alpha", None): "none: it is tuned",
        ("context_length", None): "whole trajectories",
        ("max_episode_steps", None): "the task's own",
        ("threads", 0): f"automatic: {1 if small else 'all cores'}",
        ("device", "auto"): f"automatic: {choose_device('auto')}",
    }


def show_diagnosis(found: Diagnosis) -> None:
    """The measurement as a table, and what follows from it in words."""
    measured = found.amplification
    OUT.print(
        f"[bold]{measured.task}[/bold] with {measured.encoder} at step {measured.step:,}: one "
        f"policy update, {len(measured.lengths)} episodes, L2 distance of {measured.distance}"
    )
    names = ("LR_CE", "LR_other", "first step", "converged", "factor")
    table = Table(*names, "K_h", "K_y", "epsilon", "misfit", box=None)
    for variation in measured.variations:
        factor, effective = measured.factor(variation), variation.effective
        table.add_row(
            *(f"{rate:.3g}" for rate in variation.rates),
            f"{variation.first:.4g}",
            f"{variation.converged:.4g}",
            "-" if factor is None else f"{factor:.2f}",
            f"{effective.K_h:.4f}",
            f"{effective.K_y:.4f}",
            f"{effective.epsilon:.4g}",
            f"{effective.relative_error:.0%}",
        )
    OUT.print(table)
    OUT.print(
        "K_h, K_y and epsilon are effective values: fitted to the curve, with that misfit, no "
        "bounds."
    )
    for paragraph in found.words():
        OUT.print(paragraph)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Warnings of ours as one line of text, without source code around it."""

    def show(message: Any, category: Any, *rest: Any, **more: Any) -> None:
        warn(str(message))

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
