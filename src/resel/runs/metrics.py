"""Metrics: one JSON object per line in metrics.jsonl, mirrored to TensorBoard and W&B.

    {"step": 5000, "kind": "eval", "return_mean": -731.5, ...}

JSON has no numbers for NaN and the infinities: they are written as the strings "nan", "inf" and
"-inf", and `read_metrics` turns them back into floats.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import os
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from resel.errors import (
    BadInputError,
    DamagedFileError,
    MissingDependencyError,
    ReselError,
    RunDirectoryError,
    StorageError,
)
from resel.runs._files import sync_directory, writing
from resel.runs._json import from_json, to_json
from resel.runs.directory import RunDirectory
from resel.runs.retry import RetryWrites

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

Value = float | int | str | None


class MetricsLog:
    """Appends to the metrics of a run. Each line is with the operating system when `write` returns.

    A line cut off by a crash is dropped when the log is opened again.
    """

    def __init__(
        self,
        run: RunDirectory | str | os.PathLike[str],
        tensorboard: bool = True,
        wandb: bool = False,
        patience: RetryWrites | None = None,
    ) -> None:
        self._patience = patience or RetryWrites()
        self._folder = run.path if isinstance(run, RunDirectory) else Path(run)
        self._tensorboard = tensorboard
        self._writer: SummaryWriter | None = None
        self._purge_step: int | None = None
        self._wandb: Any = None
        self.path = self._folder / "metrics.jsonl"
        try:
            self._stream = self.path.open("a+b", buffering=0)
            sync_directory(self._folder)  # the lines count for nothing without their file's name
        except OSError as error:
            raise RunDirectoryError(
                f"{self.path} cannot be written to ({error.strerror}). Check that the run "
                "directory exists and its permissions."
            ) from error
        try:
            self._cut(self.position())
            self._wandb = _start_wandb(self._folder) if wandb else None
        except BaseException:
            self.close()
            raise

    def write(self, kind: str, step: int, values: Mapping[str, Value]) -> None:
        """Append one line; TensorBoard and W&B get the finite numbers as `kind/name`."""
        if taken := {"step", "kind"} & set(values):
            raise BadInputError(f"A metric cannot be named {sorted(taken)[0]!r}: rename it.")
        plain = {name: to_json(value) for name, value in values.items()}
        line = json.dumps({"step": int(step), "kind": kind, **plain}, allow_nan=False)
        self._patience(lambda: self._append(line))
        scalars = {
            f"{kind}/{name}": value
            for name, value in plain.items()
            if isinstance(value, int | float)
        }
        if self._tensorboard:
            self._mirror(scalars, int(step))
        if self._wandb is not None and scalars:
            self._wandb.log(scalars, step=int(step))

    def position(self) -> int:
        """Bytes written so far, all of them on the disk: belongs into a checkpoint."""
        with self._writing():
            os.fsync(self._stream.fileno())
        return os.fstat(self._stream.fileno()).st_size

    def truncate_to(self, position: int) -> None:
        """Drop what was written after `position`, here and in TensorBoard's view; for resuming."""
        if position < 0:
            raise BadInputError(f"position={position} cannot be: it must be at least 0.")
        self._cut(position)
        last = max((int(line["step"]) for line in each_metric(self.path)), default=-1)
        if self._writer is not None:
            # TensorBoard reads its files in the order of their names, which hold whole seconds.
            time.sleep(1 - time.time() % 1)
        self._close_writer()  # the next one tells TensorBoard to forget the dropped steps
        self._purge_step = last + 1

    def close(self) -> None:
        """Finish all files; may be called again."""
        self._stream.close()
        self._close_writer()
        if self._wandb is not None:
            self._wandb.finish()
            self._wandb = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _append(self, line: str) -> None:
        data = line.encode() + b"\n"
        try:
            with self._writing():
                if self._stream.write(data) != len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except StorageError:
            with contextlib.suppress(OSError):
                self._cut(self.position())  # or the next line would be glued to half of this one
            raise

    def _writing(self) -> contextlib.AbstractContextManager[None]:
        return writing(f"{self.path} could not be written", "Check free space and permissions.")

    def _mirror(self, scalars: Mapping[str, float], step: int) -> None:
        """Tell TensorBoard too; a run does not end because its copy of the metrics cannot grow."""
        try:
            for name, value in scalars.items():
                self._summary_writer().add_scalar(name, value, step)
        except OSError as error:
            self._tensorboard = False
            warnings.warn(
                f"TensorBoard's files cannot be written ({error.strerror or error}): it gets no "
                "more of this run. metrics.jsonl goes on.",
                stacklevel=3,
            )

    def _cut(self, position: int) -> None:
        """End the file at the last whole line that ends at or before `position`."""
        end = min(position, os.fstat(self._stream.fileno()).st_size)
        block = 4096
        while end > 0:
            start = max(0, end - block)
            self._stream.seek(start)
            newline = self._stream.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        self._stream.truncate(end)

    def _close_writer(self) -> None:
        if self._writer is not None:
            with contextlib.suppress(OSError):  # metrics.jsonl has it all
                self._writer.close()
            self._writer = None

    def _summary_writer(self) -> SummaryWriter:
        # Not at the top: it takes a second to import and few processes need it.
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(
                self._folder / "tensorboard", purge_step=self._purge_step, flush_secs=30
            )
        return self._writer


def read_metrics(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """All lines of a metrics.jsonl, without a last line that was cut off."""
    return list(each_metric(path))


def each_metric(path: str | os.PathLike[str], after: int = 0) -> Iterator[dict[str, Any]]:
    """The same one by one, so that memory does not grow with the file; those after a place in it.

    Lines are counted from there.
    """
    where = Path(path)
    try:
        with where.open("rb") as file:
            file.seek(after)
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):  # what follows the last newline is cut off
                    yield _record(line, where, number)
    except OSError as error:
        if isinstance(error, ReselError):
            raise
        raise RunDirectoryError(
            f"{where} cannot be read ({error.strerror}). Give the metrics.jsonl of a run."
        ) from error


def _record(line: bytes, where: Path, number: int) -> dict[str, Any]:
    try:
        record = json.loads(line)
        if not (isinstance(record, dict) and isinstance(record["step"], int)):
            raise ValueError("it is not an object with a step")
    except (ValueError, KeyError) as error:
        raise DamagedFileError(
            f"{where} is damaged in line {number}: {error}. Delete that line or use an "
            "earlier copy."
        ) from error
    found: dict[str, Any] = from_json(record)
    return found


def _start_wandb(folder: Path) -> Any:
    try:
        wandb = importlib.import_module("wandb")
    except ImportError as error:
        raise MissingDependencyError(
            "Logging to Weights & Biases needs the package wandb: pip install 'resel[wandb]'."
        ) from error
    # The same id on resuming makes it go on with the same W&B run.
    name = folder.absolute().name
    return wandb.init(project="resel", name=name, id=name, resume="allow", dir=str(folder))
