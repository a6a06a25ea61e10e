"""The run directory: one folder per run, with one owner.

- config.json       the resolved settings
- environment.json  the machine and the versions it ran on; when and how it was started
- metrics.jsonl     one line per report (see loggers.py)
- tensorboard/      the same for TensorBoard
- agents/last       bundle: the newest agent
- agents/best       bundle: the best agent in evaluation
- checkpoints/      bundles step-000012000: everything needed to go on, except the
- replay/           buffer's episodes (see segments.py)
- result.json       how the run ended
- earlier, ...-2    what a start has left that did not get to its first checkpoint
- .lock             held while a process writes to the run
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from resel.errors import DamagedFileError, ReselError, RunDirectoryError, RunInUseError
from resel.runs._files import (
    is_temporary,
    make_directories,
    original_of,
    remove_directory,
    sync_directory,
    tidy,
    write_file,
    write_json,
    writing,
)
from resel.runs._json import from_json
from resel.runs._lock import Lock
from resel.runs._manifest import MANIFEST, VERSION, check_version, read_manifest
from resel.runs._reading import parse_json, read_regular
from resel.runs.bundle import find_bundle
from resel.tasks import short_name

_SETTINGS_BYTES = 10_000_000
_BEFOREHAND = {".lock", "console.log", ".DS_Store"}
"""What a folder may hold before its run: a killed start's, a sweep's, and a file manager's."""
_VERSION_KEY = "format_version"
_VERSION_UNNAMED = 4
"""The last version in which config.json did not say its own."""
_OF_A_START = ("metrics.jsonl", "environment.json", "result.json", "agents", "tensorboard")
"""What a start writes before its first checkpoint."""
_STEP_NAME = re.compile(r"step-(\d{9,})")


class RunDirectory:
    """The disk of one run. Get one from `create` or `open`; close it to let others write."""

    def __init__(self, path: Path, lock: Lock | None) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def create(cls, path: str | os.PathLike[str], config_json: Mapping[str, Any]) -> Self:
        """Start a new run in a folder that holds none yet."""
        where = Path(path).absolute()
        refuse_existing_run(where)
        try:
            make_directories(where)
            lock = Lock(where / ".lock")
        except (FileExistsError, NotADirectoryError) as error:
            raise RunDirectoryError(
                f"{where} cannot become a run directory because a file is in the way. "
                "Choose another --run-dir."
            ) from error
        except ReselError:
            raise
        except OSError as error:
            raise RunDirectoryError(
                f"The run directory {where} cannot be written to ({error.strerror}). "
                "Choose another --run-dir or change its permissions."
            ) from error
        try:
            refuse_existing_run(where)  # again: another process may have been quicker
            run = cls(where, lock)
            run.write_config(config_json)
        except BaseException:
            lock.release()
            raise
        return run

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, read_only: bool = False) -> Self:
        """Open an existing run, to go on with it or, while it may still be going on, to read it."""
        where = Path(path).absolute()
        if where.is_file():
            raise RunDirectoryError(
                f"{where} is a file, but a run is a folder: give the one that `resel train` names "
                "at its end."
            )
        if not (where / "config.json").is_file():
            raise RunDirectoryError(
                f"There is no run in {where} (no config.json there). Check the path: a run is the "
                "folder that `resel train` names at its end."
            )
        if read_only:
            return cls(where, None)
        try:
            lock = Lock(where / ".lock")
            try:
                for folder in (where, where / "agents", where / "checkpoints", where / "replay"):
                    tidy(folder)
            except BaseException:
                lock.release()
                raise
        except ReselError:
            raise
        except OSError as error:
            raise RunDirectoryError(
                f"The run directory {where} cannot be written to ({error.strerror}). "
                "Change its permissions or copy the run to another place."
            ) from error
        return cls(where, lock)

    def close(self) -> None:
        """Let other processes write to this run."""
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def remove(self) -> None:
        """Take back what a start has written that took no step; what others put there stays."""
        with self._rearranging():
            for name in (*_OF_A_START, "checkpoints", "replay"):
                place = self.path / name
                if place.is_dir():
                    remove_directory(place)
                else:
                    place.unlink(missing_ok=True)
            (self.path / "config.json").unlink(missing_ok=True)
            (self.path / ".lock").unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # it holds something else
            self.path.rmdir()

    @property
    def metrics_path(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def tensorboard_path(self) -> Path:
        return self.path / "tensorboard"

    @property
    def last_agent_path(self) -> Path:
        return self.path / "agents" / "last"

    @property
    def best_agent_path(self) -> Path:
        return self.path / "agents" / "best"

    @property
    def replay_path(self) -> Path:
        return self.path / "replay"

    def read_config(self) -> dict[str, Any]:
        """The settings the run was created with, as given to `create`."""
        config = self._read("config.json")
        check_version(self.path / "config.json", config.get(_VERSION_KEY, _VERSION_UNNAMED))
        return without_version(config)

    def write_config(self, config_json: Mapping[str, Any]) -> None:
        """Record settings that were changed on the way."""
        self._write("config.json", with_version(config_json))

    def write_environment(self, description: Mapping[str, Any]) -> None:
        """Record the machine, usually with `describe_machine`."""
        self._write("environment.json", description)

    def read_environment(self) -> dict[str, Any] | None:
        """The recorded machine, or None if there is no record."""
        return self._read("environment.json") if self._has("environment.json") else None

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Record how the run ended."""
        self._write("result.json", result)

    def read_result(self) -> dict[str, Any] | None:
        """The recorded result, or None while the run has none."""
        return from_json(self._read("result.json")) if self._has("result.json") else None

    def checkpoint_path(self, step: int) -> Path:
        """Where the checkpoint of this step belongs."""
        return self.path / "checkpoints" / f"step-{step:09d}"

    def checkpoints(self) -> list[Path]:
        """All checkpoints, whole or not, lowest step first."""
        return [self.checkpoint_path(step) for step in self.checkpoint_steps()]

    def checkpoint_steps(self) -> list[int]:
        """The steps of all checkpoints, lowest first."""
        folder = self.path / "checkpoints"
        if not folder.is_dir():
            return []
        paths = {original_of(entry) or entry for entry in folder.iterdir()}
        return sorted(int(match[1]) for p in paths if (match := _STEP_NAME.fullmatch(p.name)))

    def prune_checkpoints(self, keep: int = 2, also: Sequence[Path] = ()) -> None:
        """Remove all checkpoints but the `keep` with the highest steps and those named."""
        paths = self.checkpoints()
        with self._rearranging():
            for path in paths[: max(0, len(paths) - keep)]:
                if path not in also:
                    remove_directory(path)

    def drop_checkpoints_after(self, step: int) -> None:
        """Remove checkpoints of higher steps, which a run that rolled back to `step` gave up."""
        with self._rearranging():
            for path in self.checkpoints():
                if int(path.name.removeprefix("step-")) > step:
                    remove_directory(path)

    def set_aside_after(self, step: int) -> None:
        """Rename the checkpoints of higher steps: after going back to `step` they are not our past.

        They could not be read, or the run would not have gone back, so they are not deleted.
        """
        with self._rearranging():
            for path in self.checkpoints():
                if int(path.name.removeprefix("step-")) > step:
                    _set_aside(path)

    def set_start_aside(self) -> Path | None:
        """Move what a start without a checkpoint has left out of the way; where to, if anything.

        Killed half way, the rest goes to a folder of its own at the next start.
        """
        agents = self.path / "agents"
        lines = self.metrics_path.is_file() and self.metrics_path.stat().st_size > 0
        if not (lines or self._has("result.json") or (agents.is_dir() and any(agents.iterdir()))):
            return None
        target = _unused(self.path / "earlier")
        with self._rearranging():
            make_directories(target)
            # A copy, which makes the folder a run of its own for whoever reads it.
            settings = read_regular(self.path / "config.json", _SETTINGS_BYTES)
            write_file(target / "config.json", [settings])
            for name in _OF_A_START:
                if os.path.lexists(self.path / name):
                    os.rename(self.path / name, target / name)
            sync_directory(target)
            sync_directory(self.path)
        return target

    def make_way(self, path: Path) -> None:
        """Rename what stands in the place of a new checkpoint or agent and is no bundle of ours."""
        if not os.path.lexists(path):
            return
        try:
            read_manifest(path / MANIFEST)
        except DamagedFileError:
            with self._rearranging():
                _set_aside(path)

    def _rearranging(self) -> contextlib.AbstractContextManager[None]:
        return writing(
            f"What is saved in {self.path} could not be put in order", "Check its permissions."
        )

    def _has(self, name: str) -> bool:
        return (self.path / name).is_file()

    def _write(self, name: str, document: Mapping[str, Any]) -> None:
        with writing(
            f"{self.path / name} could not be written", "Check free space and permissions."
        ):
            write_json(self.path / name, dict(document))

    def _read(self, name: str) -> dict[str, Any]:
        path = self.path / name
        data = parse_json(path, read_regular(path, _SETTINGS_BYTES))
        if not isinstance(data, dict):
            raise DamagedFileError(
                f"{path} does not hold a JSON object. Restore it from a copy of the run."
            )
        return data


def with_version(config_json: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as config.json has them; a checkpoint's copy can be put in its place."""
    return {_VERSION_KEY: VERSION, **config_json}


def without_version(config_json: Mapping[str, Any]) -> dict[str, Any]:
    """The settings alone."""
    return {name: value for name, value in config_json.items() if name != _VERSION_KEY}


def default_run_path(task: str, label: str, seed: int) -> Path:
    """A path under `runs/` that does not exist yet and says what it holds."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", short_name(task)).strip("-.") or "custom"
    time = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    return _unused(Path("runs") / f"{name}-{label}-seed{seed}-{time}")


def is_in_use(path: str | os.PathLike[str]) -> bool:
    """Whether a process is writing to the run in this folder, which need not exist."""
    lock = Path(path) / ".lock"
    if not lock.is_file():
        return False
    try:
        Lock(lock).release()
    except RunInUseError:
        return True
    except OSError:  # not ours to write to; whoever opens the run will tell
        return False
    return False


def _set_aside(path: Path) -> None:
    """Give an unreadable bundle a name under which nobody looks for it."""
    place = find_bundle(path) or path
    os.rename(place, _unused(path.with_name(f"unreadable-{path.name}")))


def _unused(path: Path) -> Path:
    """A path that nothing has: this one, or with a number at its end."""
    found, number = path, 1
    while os.path.lexists(found):
        number += 1
        found = path.with_name(f"{path.name}-{number}")
    return found


def refuse_existing_run(path: Path) -> None:
    """Refuse a folder that a new run may not be written to."""
    with contextlib.suppress(NotADirectoryError, PermissionError):
        if any((path / name).exists() for name in ("config.json", "metrics.jsonl")):
            raise RunDirectoryError(
                f"{path} already holds a run. Go on with it by --resume auto, choose another "
                "--run-dir, or delete it."
            )
        names = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []
        foreign = [name for name in names if not (name in _BEFOREHAND or is_temporary(name))]
        if foreign:
            more = ", ..." if len(foreign) > 3 else ""
            raise RunDirectoryError(
                f"{path} is not empty and not a run: it holds {', '.join(foreign[:3])}{more}. "
                "Nothing was changed; choose another --run-dir, such as a new folder in it."
            )
