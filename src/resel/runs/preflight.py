"""Whether a run may start, or go on, in a directory and on a machine."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Literal

from resel.config import Config, TrainingConfig
from resel.data import ReplayBuffer
from resel.envs import AnyEnv
from resel.errors import ConfigError, ReselError, RunDirectoryError
from resel.runs.agents import read_agent
from resel.runs.bundle import read_bundle
from resel.runs.directory import RunDirectory
from resel.runs.memory import available_memory, format_bytes
from resel.runs.own_config import MAY_DIFFER, differing_settings, own_config

Resume = Literal["never", "auto"]
ENDED = ("completed", "stopped early")
"""How runs end that have come to what they were to: all steps, or a reason to take no more."""


def existing_directory(config: Config, path: Path) -> RunDirectory | None:
    """The run in `path`, ours to write from now on, if there is one with these settings."""
    if not (path / "config.json").exists():
        return None
    directory = RunDirectory.open(path)
    try:
        _check_same(own_config(directory), config, path)
    except BaseException:
        directory.close()
        raise
    return directory


def saved_config(path: Path) -> Config:
    """The settings of the run in a directory."""
    return own_config(RunDirectory.open(path, read_only=True))


def finished_result(
    config: Config, path: Path, reach: float | None = None
) -> dict[str, Any] | None:
    """The result of the run in `path` if it needs no more steps for these settings.

    One that was stopped early needs them if more is asked for: more steps than it was to take, or a
    higher return, by `stop_return` or, where callbacks look at that, `reach`. A run whose last
    agent cannot be read is not finished: that agent is in its checkpoints.
    """
    if not (path / "config.json").exists():
        return None
    directory = RunDirectory.open(path, read_only=True)
    saved, settings = own_config(directory), config.training
    _check_same(saved, config, path)
    result = directory.read_result() or {}
    done = result.get("status") in ENDED and (
        result.get("steps", 0) >= settings.steps or _rests(result, saved.training, settings, reach)
    )
    return result if done and _is_whole(directory) else None


def _rests(
    result: dict[str, Any], saved: TrainingConfig, asked: TrainingConfig, reach: float | None
) -> bool:
    """Whether a run that ended before its steps were taken has no reason to take more now."""
    held = result.get("held_return")
    if isinstance(held, int | float):
        wanted = asked.stop_return if asked.stop_return is not None else reach
        if wanted is not None and wanted > held:
            return False
        if held == saved.stop_return:
            return asked.stop_return is not None
    return result.get("status") == "stopped early" and asked.steps <= saved.steps


def _is_whole(directory: RunDirectory) -> bool:
    """Whether what a finished run is kept for can be read; other damage is only told."""
    try:
        read_agent(directory.last_agent_path)
    except ReselError as error:
        warnings.warn(f"{error} The run makes it anew from its checkpoints.", stacklevel=3)
        return False
    try:
        read_agent(directory.best_agent_path)
    except ReselError as error:
        warnings.warn(f"{error} The last agent of the run is good.", stacklevel=3)
    for newest in directory.checkpoints()[-1:]:
        try:
            read_bundle(newest, "checkpoint")
        except ReselError as error:
            warnings.warn(
                f"{error} The agents of the run are good, but made longer it would go on from an "
                "earlier checkpoint, if there is one.",
                stacklevel=3,
            )
    return True


def check_past(path: Path, there: int, here: int) -> None:
    """Refuse to give up what a trainer has learned for a checkpoint of another step."""
    if here not in (0, there):
        raise RunDirectoryError(
            f"The run in {path} is at step {there:,} and this agent at step {here:,}, so going on "
            "there would lose what it has learned: make a new agent to go on with the run, or "
            "choose another run_dir. Nothing was changed."
        )


def check_memory(settings: TrainingConfig, env: AnyEnv) -> int:
    """The memory the replay buffer will take, refused if it is not there.

    Only an environment that was reset knows its columns.
    """
    steps = min(settings.buffer_steps, settings.steps)
    seen = env.observation
    sizes = seen.stored_size, env.action.stored_size, env.columns, seen.dtype
    planned, free = ReplayBuffer.planned_bytes(steps, *sizes), available_memory()
    if free is not None and planned > free:
        fitting = int(0.8 * free / planned * steps)
        raise ConfigError(
            f"The replay buffer would take {format_bytes(planned)}, but only {format_bytes(free)} "
            f"of memory are free: lower --buffer-steps (to about {fitting:,}) or use a machine "
            "with more memory. Nothing was written."
        )
    return planned


def _check_same(saved: Config, wanted: Config, path: Path) -> None:
    if found := differing_settings(saved, wanted):
        changed = ", ".join(f"{name}: {has!r} there, {asked!r} asked" for name, has, asked in found)
        raise RunDirectoryError(
            f"{path} holds a run with other settings ({changed}). Use those, or begin another run "
            f"in another folder; what may change on the way is {', '.join(MAY_DIFFER)}."
        )
