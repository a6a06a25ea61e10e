"""Environments that users bring: `file.py:Class`, `module:Class` and `module:Id-v0`.

A class may also be a function that makes an environment.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from resel.errors import (
    ConfigError,
    EnvironmentFault,
    MissingDependencyError,
    UnknownTaskError,
)
from resel.tasks.source_files import ENDING, digest_of, line_of, make_importable, run_file

_HOW = "Write it as file.py:Class, module:Class or module:Id-v0."


def split_name(task: str) -> tuple[str, str]:
    """File or module, and what to look for in it; the first is empty for a plain name."""
    place, _, name = task.rpartition(":")
    return (name, "") if not place and name.endswith(ENDING) else (place, name)


def full_name(task: str) -> str:
    """The same with the whole path of its file, if it names one: it is found from any folder."""
    path, (_, name) = _file_of(task), split_name(task)
    return task if path is None else f"{path}:{name}".rstrip(":")


def short_name(task: str) -> str:
    """The same without the folder of its file, to be shown."""
    path, (_, name) = _file_of(task), split_name(task)
    return task if path is None else f"{path.name}:{name}".rstrip(":")


def source_digest(task: str) -> str | None:
    """SHA-256 of the file of a task as this process knows it; None if there is no such file."""
    path = _file_of(task)
    return None if path is None else digest_of(path)


def load_place(task: str) -> ModuleType | None:
    """The module that a name starts with, imported or run; None for a plain name."""
    place, name = split_name(task)
    path = _file_of(task)
    if not place:
        return None
    module = _import(place, task) if path is None else run_file(path)
    if not name:
        raise UnknownTaskError(f"{task!r} does not say which environment.{_offer(module, task)}")
    return module


def own_spec(module: ModuleType, task: str) -> EnvSpec:
    """How to make what a module calls by that name, which Gymnasium does not know."""
    name = split_name(task)[1]
    found = getattr(module, name, None)
    if found is None:
        raise UnknownTaskError(
            f"{_called(module)} has no environment {name!r}.{_offer(module, task)}"
        )
    if isinstance(found, type) and not issubclass(found, gymnasium.Env):
        old = any(base.__module__.partition(".")[0] == "gym" for base in found.__mro__)
        what = "an environment of the old Gym" if old else "a class, but no environment"
        raise ConfigError(
            f"{task!r} is {what}: derive it from gymnasium.Env.{_offer(module, task)}"
        )
    if not callable(found):
        raise ConfigError(
            f"{task!r} is {type(found).__name__} and makes no environment: name a class or a "
            f"function.{_offer(module, task)}"
        )
    return EnvSpec(id=name, entry_point=found)


def belongs_to(spec: EnvSpec, module: ModuleType) -> bool:
    """Whether a registered environment comes from the package of a module."""
    entry = spec.entry_point
    where = entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "")
    return where.partition(".")[0] == module.__name__.partition(".")[0]


def place_of(error: BaseException, made: Any) -> str:
    """The line of its own file at which an environment failed, in words; empty if not known."""
    module = sys.modules.get(getattr(made, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    return line_of(error, file) if file else ""


def _file_of(task: str) -> Path | None:
    """The file that a task names, which need not exist."""
    place, _ = split_name(task)
    if not place or not (place.endswith(ENDING) or os.sep in place or Path(place).is_file()):
        return None
    return Path(os.path.abspath(os.path.expanduser(place)))


def _import(name: str, task: str) -> ModuleType:
    """A module, found in the current folder as well."""
    make_importable(Path.cwd())
    starts = f"The environment {task!r} starts with importing {name!r}, which"
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingDependencyError(
            f"{starts} failed: {error}. Install the package that has it, start in its folder, or "
            "add its folder to PYTHONPATH."
        ) from error
    except (Exception, SystemExit) as error:
        raise EnvironmentFault(f"{starts} raised {type(error).__name__}: {error}") from error


def _offer(module: ModuleType, task: str) -> str:
    """What a module has, as it would be written."""
    place, name = split_name(task)
    known = list(_environments(module))
    near = difflib.get_close_matches(name, known, n=5, cutoff=0.6) or known[:5]
    if not near:
        return f" It has none: write a class that is derived from gymnasium.Env. {_HOW}"
    words = ", ".join(f"{place}:{found}" for found in near)
    return f" Did you mean {words}?" if name else f" Write {words}."


def _environments(module: ModuleType) -> Iterator[str]:
    """Classes of environments defined there, and what its package has registered."""
    for name, found in vars(module).items():
        own = inspect.isclass(found) and found.__module__ == module.__name__
        if own and issubclass(found, gymnasium.Env):
            yield name
    for spec in gymnasium.registry.values():
        if belongs_to(spec, module):
            yield spec.id


def _called(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or f"The module {module.__name__!r}"
