"""`resel tasks`: the tasks that come with resel, and the settings of any."""

from __future__ import annotations

import dataclasses
import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import tyro
from rich.table import Table

from resel.cli._arguments import PLAIN, word
from resel.cli.console import OUT, escape, print_table
from resel.config import GROUPS, Config
from resel.envs import OF_TASK
from resel.tasks import TaskSpec, all_tasks, get_task, is_installed, make_env

_ROOM_FOR_WORDS = 150
_ABSENT = " *"


@dataclass(frozen=True)
class TasksArguments:
    """List the tasks that come with resel."""

    json: bool = False
    """Print a JSON list and nothing else."""
    show: Annotated[str | None, word("TASK")] = None
    """Print every setting of one task instead."""
    method: Annotated[str | None, word("METHOD")] = None
    """With --show: of which method; see `resel methods`."""
    preset: Annotated[str | None, word("PRESET")] = None
    """With --show: which preset, one of paper, released, small and auto; if not given, the one that
    `resel train` takes."""


def run(argv: Sequence[str]) -> int:
    """List all tasks, or show one."""
    arguments = tyro.cli(TasksArguments, args=argv, prog="resel tasks", config=PLAIN)
    if arguments.show is not None:
        _show(arguments.show, arguments.preset, arguments.method)
    elif arguments.json:
        print(json.dumps([_as_json(task) for task in all_tasks()], indent=1))
    else:
        _list()
    return 0


def _as_json(task: TaskSpec) -> dict[str, Any]:
    names = ("id", "family", "summary", "observation_size", "action_size", "horizon", "steps")
    needs = None if task.needs is None else task.needs.extra
    return {
        **{name: getattr(task, name) for name in names},
        "critic_observations": task.critic_observations,
        "threshold": task.threshold,
        "needs": needs,
        "installed": is_installed(task),
    }


def _list() -> None:
    """The tasks by family, described beside or, on a narrow screen, below."""
    wide = max(len(task.id) for task in all_tasks()) + len(_ABSENT)
    beside, family = OUT.width >= _ROOM_FOR_WORDS, ""

    def row(name: str, *numbers: str, text: str = "") -> str:
        obs, act, horizon, steps = numbers
        return f"{name:{wide}}{obs:>5}{act:>5}{horizon:>9}{steps:>11}  {text}".rstrip()

    _print(row("task", "obs", "act", "horizon", "steps", text="what it asks" if beside else ""))
    for task in all_tasks():
        if task.family != family:
            family = task.family
            OUT.print(f"[bold]{family}[/bold]")
        numbers = (task.observation_size, task.action_size, task.horizon, f"{task.steps:,}")
        name = task.id if is_installed(task) else task.id + _ABSENT
        _print(row(name, *map(str, numbers), text=task.summary if beside else ""))
        if not beside:
            OUT.print(f"  [dim]{escape(task.summary)}[/dim]", soft_wrap=True)
    _print("\n" + textwrap.fill(_about_critics(), min(OUT.width, _ROOM_FOR_WORDS)))
    _print(f"\n{_about_installing()}")


def _about_critics() -> str:
    """What tasks tell in training that no policy sees."""
    by_name: dict[str, list[str]] = {}
    for task in all_tasks():
        if task.critic_observations is not None:
            by_name.setdefault(task.critic_observations, []).append(task.id)
    named = [f"{name} of {', '.join(tasks)}" for name, tasks in by_name.items()]
    return f"--critic-observations task lets the critic read {'; '.join(named)}."


def _print(text: str) -> None:
    OUT.print(text, markup=False, soft_wrap=True)


def _about_installing() -> str:
    """What the marks mean, and how to get what is missing."""
    found = [t.needs.extra for t in all_tasks() if t.needs is not None and not is_installed(t)]
    missing = dict.fromkeys(found)
    extras = [f"pip install 'resel[{extra}]'" for extra in missing]
    return f"*: not installed; {', '.join(extras)}" if extras else "All are installed."


def _show(name: str, preset: str | None, method: str | None) -> None:
    """Every setting of a method on a task, and which of them are the task's own."""
    from gymnasium.spaces import Box  # what only lists tasks needs none of these

    from resel.agent import configure, preset_layer, usual_preset, world_of
    from resel.methods import get_method

    env = make_env(name)  # refuses unknown names with near matches
    env.close()
    preset = preset or usual_preset(name)
    world = world_of(name, {}) if preset == "auto" else None
    config = configure(name, method=method, preset=preset, world=world)
    own = preset_layer(get_method(config.method), name, preset, world)
    whose = "chosen" if preset == "auto" else "task's own"
    meant = _what_automatic_means(config, isinstance(env.action_space, Box))
    table = Table("setting", "value", "", box=None)
    table.add_row("preset", preset)
    table.add_row("method", config.method)
    table.add_row("encoder", str(config.encoder), whose if "encoder" in own else "")
    if (spec := get_task(name)) is not None and spec.threshold is not None:
        table.add_row("counts as solved", f"a return of {spec.threshold:g}")
    for group in GROUPS:
        fields = dataclasses.fields(getattr(config, group))
        if fields:
            table.add_row(f"[bold]{group}[/bold]")
        for field in fields:
            value = getattr(getattr(config, group), field.name)
            shown = meant.get((field.name, str(value)), str(value))
            table.add_row(field.name, shown, whose if field.name in own else "")
    print_table(table)


def _what_automatic_means(config: Config, continuous: bool) -> dict[tuple[str, str], str]:
    """In words, the settings whose value leaves the choice to us."""
    from resel.training import gpu_fault
    from resel.training.threads import suitable_threads, width_of

    small, task = suitable_threads(0, width_of(config)) == 1, get_task(config.task)
    named = task.critic_observations if task is not None else None
    return {
        ("target_entropy_scale", "None"): f"automatic: {1 if continuous else 0.2}",
        ("alpha", "None"): "none: it is tuned",
        ("context_length", "None"): "whole trajectories",
        ("critic_observations", "None"): f"none; {OF_TASK} means {named}" if named else "none",
        ("max_episode_steps", "None"): "the task's own",
        ("threads", "0"): f"automatic: {1 if small else 'all cores'}",
        ("device", "auto"): f"automatic: {'cpu' if gpu_fault() else 'cuda'}",
    }
