"""Writing so that a crash leaves the old thing or the new thing, never a half of either.

A folder that already exists cannot be replaced in one system call, so it takes three steps:

    rename  name       -> .old-name
    rename  .tmp-name  -> name
    remove  .old-name

Whoever looks for `name` therefore also accepts `.old-name` when `name` is not there.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from resel.errors import ReselError, RunDirectoryError, StorageError
from resel.runs._json import to_json

_TOKEN = 8
_TEMPORARY = re.compile(rf"\.tmp-.+-[0-9a-f]{{{_TOKEN}}}")
_ASIDE = ".old-"


def temporary_sibling(path: Path) -> Path:
    """A fresh hidden name beside `path`, so that a rename stays on one file system."""
    return path.with_name(f".tmp-{path.name}-{secrets.token_hex(_TOKEN // 2)}")


def is_temporary(name: str) -> bool:
    """Whether a killed process left something of this name behind."""
    return _TEMPORARY.fullmatch(name) is not None


def aside_of(path: Path) -> Path:
    """Where the old folder waits while `path` is being replaced."""
    return path.with_name(_ASIDE + path.name)


def original_of(aside: Path) -> Path | None:
    """The folder that `aside` was moved away from, if that is what it is."""
    name = aside.name.removeprefix(_ASIDE)
    return aside.with_name(name) if name and name != aside.name else None


def write_file(path: Path, chunks: Iterable[Any]) -> tuple[int, str]:
    """Write a new file (bytes or arrays), wait until it is on the disk; its size and SHA-256."""
    digest, size = hashlib.sha256(), 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        for chunk in chunks:
            view = memoryview(chunk)
            if not view.nbytes:
                continue
            view = view.cast("B")
            digest.update(view)
            size += len(view)
            while view:
                view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return size, digest.hexdigest()


def sync_directory(path: Path) -> None:
    """Wait until the names inside a folder are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directories(path: Path) -> None:
    """Make a folder and those above it, each of them on the disk when this returns."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        sync_directory(folder.parent)


def write_json(path: Path, document: Any) -> None:
    """Replace a JSON file in one step; see `_json` for NaN."""
    text = json.dumps(to_json(document), indent=2, allow_nan=False) + "\n"
    temporary = temporary_sibling(path)
    try:
        write_file(temporary, [text.encode()])
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


_WRONG_PLACE = {errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP}


@contextlib.contextmanager
def writing(problem: str, advice: str) -> Iterator[None]:
    """Say what a failed write means: a path that cannot work, or a disk that may work later."""
    try:
        yield
    except ReselError:
        raise
    except OSError as error:
        kind = RunDirectoryError if error.errno in _WRONG_PLACE else StorageError
        raise kind(f"{problem} ({error.strerror or error}). {advice}") from error


def replace_directory(new: Path, path: Path) -> None:
    """Put the finished folder `new` in the place of `path`, which may exist."""
    aside = aside_of(path)
    replacing = path.exists()
    if replacing:
        remove_directory(aside)
        os.rename(path, aside)
    try:
        os.rename(new, path)
    except BaseException:
        if replacing:
            os.rename(aside, path)
        raise
    sync_directory(path.parent)
    remove_directory(aside)


@contextlib.contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """A folder to fill, which takes the place of `path` once that is done, or else is gone."""
    make_directories(path.parent)
    temporary = temporary_sibling(path)
    temporary.mkdir()
    try:
        yield temporary
        sync_directory(temporary)
        replace_directory(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def remove_directory(path: Path) -> None:
    """Remove a folder if it is there; it is never seen half removed under its own name."""
    if not path.exists():
        return
    doomed = temporary_sibling(path)
    os.rename(path, doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def settle(path: Path, whole: Callable[[Path], bool]) -> None:
    """Finish or undo what a killed process left of replacing a folder.

    What waits aside goes back if `path` is not there, and else away; `whole` says whether it is
    what belongs there.
    """
    aside = aside_of(path)
    if aside.is_dir() and whole(aside):
        if path.exists():
            remove_directory(aside)
        else:
            os.rename(aside, path)
            sync_directory(path.parent)
    if not path.parent.is_dir():
        return
    ours = {temporary_sibling(own).name[:-_TOKEN] for own in (path, aside)}
    for entry in path.parent.iterdir():
        if is_temporary(entry.name) and entry.name[:-_TOKEN] in ours and entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)


def tidy(parent: Path) -> None:
    """Finish or undo what a killed process left in a folder; only for its sole writer."""
    if not parent.is_dir():
        return
    for entry in sorted(parent.iterdir()):
        original = original_of(entry)
        if original is not None and (entry / "manifest.json").is_file():
            if original.exists():
                remove_directory(entry)
            else:
                os.rename(entry, original)
        elif is_temporary(entry.name):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
