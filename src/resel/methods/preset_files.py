"""Presets in files: what `resel tune` found, for `--preset FILE` and `preset="FILE"`.

{"format": "resel-preset", "version": 1, "task": "Pendulum-P-v0", "method": "resel",
 "settings": {"encoder": "mamba", "lr_policy": 0.0007, ...}, "about": {...}, "sha256": "..."}

`settings` are all that were searched or differ from the method's defaults, so that a preset stays
what it is when others change. The hash is that of `task`, `method` and `settings`; a file without
one is somebody's own, and is taken as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resel.config import Config, without_former
from resel.envs import warn_user
from resel.errors import ConfigError, DamagedFileError

FORMAT, VERSION = "resel-preset", 1
NOT_KEPT = {"seed", "init_from", "device", "threads", "env_workers", "env_timeout"}
NOT_KEPT |= {"env_restarts", "disk_tries", "disk_wait", "stop_return", "eval_parallel"}
"""What belongs to a run and its machine."""


@dataclass(frozen=True)
class PresetFile:
    """Settings of a method that suit a task."""

    task: str
    method: str
    settings: Mapping[str, Any]
    """By flat name, `encoder` among them for methods that have one."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Where they come from, for people."""

    @classmethod
    def of(
        cls, config: Config, about: Mapping[str, Any], chosen: Collection[str] = ()
    ) -> PresetFile:
        """All settings of a config that are not the method's defaults, or that were chosen."""
        names = {"method": config.method, "encoder": config.encoder}
        usual = Config.build("", names).flat() | {"encoder": None}
        own = {n: v for n, v in config.flat().items() if n not in NOT_KEPT}
        kept = {n: v for n, v in own.items() if v != usual[n] or n in chosen}
        return cls(config.task, config.method, kept, about)

    def write(self, path: Path) -> None:
        """Replace the file in one step."""
        core = {"task": self.task, "method": self.method, "settings": dict(self.settings)}
        head = {"format": FORMAT, "version": VERSION}
        document = {**head, **core, "about": dict(self.about), "sha256": _digest(core)}
        temporary = path.with_name(f".tmp-{path.name}")
        temporary.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        os.replace(temporary, path)


def is_preset_file(preset: str | None) -> bool:
    """Whether a preset is meant that is a file, not a word."""
    return preset is not None and (preset.endswith(".json") or "/" in preset or os.sep in preset)


def read_preset(path: str) -> PresetFile:
    """The preset in a file, if it is one that was not altered and that its method understands."""
    try:
        document = json.loads(Path(path).read_bytes())
        found, version = document["format"], document["version"]
    except FileNotFoundError:
        raise ConfigError(f"There is no preset file {path}: check the path.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedFileError(
            f"{path} cannot be read as a preset file ({type(error).__name__}: {error}): give one "
            "that `resel tune` wrote."
        ) from error
    if found != FORMAT or type(version) is not int or version > VERSION:
        raise DamagedFileError(
            f"{path} is of format {found!r} version {version!r}, and this resel reads {FORMAT!r} "
            f"up to {VERSION}: update resel, or give another file."
        )
    core = {name: document.get(name) for name in ("task", "method", "settings")}
    if "sha256" in document and document["sha256"] != _digest(core):
        raise DamagedFileError(
            f"The preset file {path} was altered: its settings do not match its hash. If that was "
            "you, remove the line sha256 to use it as your own; otherwise take an earlier copy."
        )
    task, method, settings = core["task"], core["method"], core["settings"]
    if not (isinstance(task, str) and isinstance(method, str) and isinstance(settings, dict)):
        raise DamagedFileError(
            f"The preset file {path} needs a task and a method (words) and settings (an object)."
        )
    try:
        names = {"method": method, "encoder": settings.get("encoder")}
        settings = without_former(method, settings)
        Config.build("", names).replace(**settings)
    except ConfigError as error:
        raise ConfigError(f"The preset file {path} cannot be used: {error}") from error
    return PresetFile(task, method, settings, document.get("about") or {})


def preset_method(preset: str | None) -> str | None:
    """The method of a preset that is a file; None for all others."""
    return read_preset(preset).method if preset is not None and is_preset_file(preset) else None


def file_settings(path: str, method: str, task: str) -> dict[str, Any]:
    """What a preset file sets for a method on a task; an empty name stands for no task yet.

    Arguments of the environment are those of the file's own task alone.
    """
    found = read_preset(path)
    if found.method != method:
        raise ConfigError(
            f"The preset file {path} has settings of the method {found.method}, not of {method}: "
            f"choose {found.method}, or another preset."
        )
    if task and task != found.task:
        warn_user(f"The settings of {path} were found on {found.task}, and this is {task}.")
    settings = dict(found.settings)
    if task != found.task:
        settings.pop("env_kwargs", None)
    return settings


def _digest(core: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(core, sort_keys=True).encode()).hexdigest()
