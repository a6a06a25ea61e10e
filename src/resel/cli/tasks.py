"""`resel tasks`: the tasks that come with resel, and the settings of any."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass

import tyro
from gymnasium.spaces import Box
from rich.table import Column, Table

from resel.agent import configure
from resel.cli._arguments import PLAIN
from resel.cli.console import OUT
from resel.config import GROUPS, Config
from resel.methods import get_method, preset_settings
from resel.tasks import all_tasks, make_env
from resel.training import choose_device
from resel.training.threads import suitable_threads, width_of

_ROOM_FOR_WORDS = 110


@dataclass(frozen=True)
class TasksArguments:
    """List the tasks that come with resel."""

    json: bool = False
    """Print a JSON list and nothing else."""
    show: str | None = None
    """Print every setting of one task instead."""
    method: str | None = None
    """With --show: of which method."""
    preset: str = "paper"
    """With --show: which preset."""


def run(argv: Sequence[str]) -> int:
    """List all tasks, or show one."""
    arguments = tyro.cli(TasksArguments, args=argv, prog="resel tasks", config=PLAIN)
    if arguments.show is not None:
        _show(arguments.show, arguments.preset, arguments.method)
    elif arguments.json:
        names = ("id", "family", "observation_size", "action_size", "horizon", "steps")
        print(json.dumps([{n: getattr(t, n) for n in names} for t in all_tasks()], indent=1))
    else:
        _list()
    return 0


def _list() -> None:
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


def _show(name: str, preset: str, method: str | None) -> None:
    """Every setting of a method on a task, and which of them are the task's own."""
    env = make_env(name)  # refuses unknown names with near matches
    env.close()
    config = configure(name, method=method, preset=preset)
    own = preset_settings(get_method(config.method), name, preset)
    meant = _what_automatic_means(config, isinstance(env.action_space, Box))
    table = Table("setting", "value", "", box=None)
    table.add_row("method", config.method)
    table.add_row("encoder", str(config.encoder), "task's own" if "encoder" in own else "")
    for group in GROUPS:
        fields = dataclasses.fields(getattr(config, group))
        if fields:
            table.add_row(f"[bold]{group}[/bold]")
        for field in fields:
            value = getattr(getattr(config, group), field.name)
            shown = meant.get((field.name, str(value)), str(value))
            table.add_row(field.name, shown, "task's own" if field.name in own else "")
    OUT.print(table)


def _what_automatic_means(config: Config, continuous: bool) -> dict[tuple[str, str], str]:
    """In words, the settings whose value leaves the choice to us."""
    small = suitable_threads(0, width_of(config)) == 1
    return {
        ("target_entropy_scale", "None"): f"automatic: {1 if continuous else 0.2}",
        ("alpha", "None"): "none: it is tuned",
        ("context_length", "None"): "whole trajectories",
        ("max_episode_steps", "None"): "the task's own",
        ("threads", "0"): f"automatic: {1 if small else 'all cores'}",
        ("device", "auto"): f"automatic: {choose_device('auto')}",
    }
