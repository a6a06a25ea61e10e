"""The run directory: one folder per run, with one owner.

- config.json       the resolved settings
- environment.json  the machine and the versions it ran on
- metrics.jsonl     one line per report (see loggers.py)
- tensorboard/      the same for TensorBoard
- agents/last       bundle: the newest agent
- agents/best       bundle: the best agent in evaluation
- checkpoints/      bundles step-000012000: everything needed to go on
- result.json       how the run ended
- .lock             held while a process writes to the run
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from resel.errors import DamagedFileError, RunDirectoryError
from resel.runs._files import original_of, remove_directory, tidy, write_json
from resel.runs._json import from_json
from resel.runs._lock import Lock
from resel.runs.bundle import find_bundle

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
        _refuse_existing_run(where)
        try:
            where.mkdir(parents=True, exist_ok=True)
            lock = Lock(where / ".lock")
        except (FileExistsError, NotADirectoryError) as error:
            raise RunDirectoryError(
                f"{where} cannot become a run directory because a file is in the way. "
                "Choose another --run-dir."
            ) from error
        except RunDirectoryError:
            raise
        except OSError as error:
            raise RunDirectoryError(
                f"The run directory {where} cannot be written to ({error.strerror}). "
                "Choose another --run-dir or change its permissions."
            ) from error
        try:
            _refuse_existing_run(where)  # again: another process may have been quicker
            run = cls(where, lock)
            run._write("config.json", config_json)
        except BaseException:
            lock.release()
            raise
        return run

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, read_only: bool = False) -> Self:
        """Open an existing run, to go on with it or, while it may still be going on, to read it."""
        where = Path(path).absolute()
        if not (where / "config.json").is_file():
            raise RunDirectoryError(
                f"There is no run in {where} (no config.json there). Check the path, or start a "
                "new run without --resume."
            )
        if read_only:
            return cls(where, None)
        try:
            lock = Lock(where / ".lock")
            try:
                for folder in (where, where / "agents", where / "checkpoints"):
                    tidy(folder)
            except BaseException:
                lock.release()
                raise
        except RunDirectoryError:
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

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

    def read_config(self) -> dict[str, Any]:
        """The settings the run was created with, as given to `create`."""
        return self._read("config.json")

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
        """All checkpoints, lowest step first."""
        folder = self.path / "checkpoints"
        if not folder.is_dir():
            return []
        paths = {original_of(entry) or entry for entry in folder.iterdir()}
        steps = sorted(int(match[1]) for p in paths if (match := _STEP_NAME.fullmatch(p.name)))
        return [path for path in map(self.checkpoint_path, steps) if find_bundle(path) is not None]

    def prune_checkpoints(self, keep: int = 2) -> None:
        """Remove all checkpoints but the `keep` with the highest steps."""
        paths = self.checkpoints()
        for path in paths[: max(0, len(paths) - keep)]:
            remove_directory(path)

    def drop_checkpoints_after(self, step: int) -> None:
        """Remove checkpoints of higher steps: after going back to `step` they are not our past."""
        for path in self.checkpoints():
            if int(path.name.removeprefix("step-")) > step:
                remove_directory(path)

    def _has(self, name: str) -> bool:
        return (self.path / name).is_file()

    def _write(self, name: str, document: Mapping[str, Any]) -> None:
        try:
            write_json(self.path / name, dict(document))
        except OSError as error:
            raise RunDirectoryError(
                f"{self.path / name} could not be written ({error.strerror}). "
                "Check free space and permissions."
            ) from error

    def _read(self, name: str) -> dict[str, Any]:
        path = self.path / name
        try:
            data = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise DamagedFileError(
                f"{path} cannot be read as JSON ({error}). Restore it from a copy of the run."
            ) from error
        if not isinstance(data, dict):
            raise DamagedFileError(
                f"{path} does not hold a JSON object. Restore it from a copy of the run."
            )
        return data


def default_run_path(task: str, encoder: str, seed: int) -> Path:
    """A path under `runs/` that does not exist yet and says what it holds."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", task).strip("-.") or "custom"
    time = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    base = Path("runs") / f"{name}-{encoder}-seed{seed}-{time}"
    path, number = base, 1
    while path.exists():
        number += 1
        path = base.with_name(f"{base.name}-{number}")
    return path


def is_in_use(path: str | os.PathLike[str]) -> bool:
    """Whether a process is writing to the run in this folder, which need not exist."""
    lock = Path(path) / ".lock"
    if not lock.is_file():
        return False
    try:
        Lock(lock).release()
    except RunDirectoryError:
        return True
    except OSError:  # not ours to write to; whoever opens the run will tell
        return False
    return False


def _refuse_existing_run(path: Path) -> None:
    with contextlib.suppress(NotADirectoryError, PermissionError):
        if any((path / name).exists() for name in ("config.json", "metrics.jsonl")):
            raise RunDirectoryError(
                f"{path} already holds a run. Go on with it by --resume auto, choose another "
                "--run-dir, or delete it."
            )
