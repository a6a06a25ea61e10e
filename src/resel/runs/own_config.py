"""The settings of a run: config.json, and the copies in its checkpoints if that was edited."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from resel.config import Config
from resel.errors import ConfigError, DamagedFileError, ReselError, RunDirectoryError
from resel.runs.bundle import read_document
from resel.runs.directory import RunDirectory, without_version

MAY_DIFFER = (
    "steps",
    "eval_every",
    "eval_episodes",
    "eval_parallel",
    "stop_return",
    "checkpoint_every",
    "checkpoint_minutes",
    "log_every",
    "threads",
    "env_workers",
    "env_timeout",
    "env_restarts",
    "on_divergence",
    "disk_tries",
    "disk_wait",
)
"""What may change on the way; `threads` is compared with the machine."""


def own_config(directory: RunDirectory) -> Config:
    """The settings of a run; refused if no checkpoint of it was made with them."""
    file, copies = directory.path / "config.json", list(_copies(directory))
    try:
        config = Config.from_json(directory.read_config())
    except (ConfigError, DamagedFileError) as error:
        if not copies:
            raise
        told = str(error) if str(file) in str(error) else f"{file} cannot be used: {error}"
        raise type(error)(f"{told} {_way_back(file, copies[0])}") from error
    edits = [differing_settings(copy, config) for _, copy, _ in copies]
    if edits and all(edits):
        named = ", ".join(f"{name}: {now!r}, was {was!r}" for name, was, now in edits[0])
        raise RunDirectoryError(
            f"{file} was edited: its settings are not those that the run was made with ({named}). "
            f"{_way_back(file, copies[0])} For other settings begin another run. Nothing was "
            "changed."
        )
    return config


def differing_settings(saved: Config, wanted: Config) -> list[tuple[str, Any, Any]]:
    """Name and both values of what differs and may not: a run goes on with its own settings."""
    before, now = (
        {"task": config.task, "method": config.method, **config.flat()}
        for config in (saved, wanted)
    )
    # What only one of the two has belongs to a method or encoder that is named itself.
    return [
        (n, before[n], now[n])
        for n in now
        if n in before and before[n] != now[n] and n not in MAY_DIFFER
    ]


_Copy = tuple[Path, Config, bool]
"""The file, what it says, and whether it can take the place of config.json."""


def _copies(directory: RunDirectory) -> Iterator[_Copy]:
    """The settings that the readable checkpoints were made with, newest first."""
    for path in reversed(directory.checkpoints()):
        try:
            document = read_document(path, "checkpoint", "config")
            plain = without_version(document)
            yield path / "config.json", Config.from_json(plain), plain != document
        except (ReselError, AttributeError):  # damaged, which is told when it is to be used
            continue


def _way_back(file: Path, copy: _Copy) -> str:
    source, _, whole = copy
    if whole:
        command = shlex.join(["cp", str(source), str(file)])
        return f"Every checkpoint holds a copy: go back with `{command}`."
    return f"Put back what {source} has."
