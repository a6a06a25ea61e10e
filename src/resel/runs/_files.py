"""Writing so that a crash leaves the old thing or the new thing, never a half of either.

A folder that already exists cannot be replaced in one system call, so it takes three steps:

    rename  name       -> .old-name
    rename  .tmp-name  -> name
    remove  .old-name

Whoever looks for `name` therefore also accepts `.old-name` when `name` is not there.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import Any

from resel.runs._json import to_json

_TEMPORARY = re.compile(r"\.tmp-.+-[0-9a-f]{8}")
_ASIDE = ".old-"


def temporary_sibling(path: Path) -> Path:
    """A fresh hidden name beside `path`, so that a rename stays on one file system."""
    return path.with_name(f".tmp-{path.name}-{secrets.token_hex(4)}")


def aside_of(path: Path) -> Path:
    """Where the old folder waits while `path` is being replaced."""
    return path.with_name(_ASIDE + path.name)


def original_of(aside: Path) -> Path | None:
    """The folder that `aside` was moved away from, if that is what it is."""
    name = aside.name.removeprefix(_ASIDE)
    return aside.with_name(name) if name and name != aside.name else None


def sync_file(path: Path) -> None:
    """Wait until the content of a file is on the disk."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: Path) -> None:
    """Wait until the names inside a folder are on the disk."""
    if os.name == "nt":  # Windows cannot open folders
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, document: Any) -> None:
    """Replace a JSON file in one step; see `_json` for NaN."""
    text = json.dumps(to_json(document), indent=2, allow_nan=False) + "\n"
    temporary = temporary_sibling(path)
    try:
        temporary.write_text(text, encoding="utf-8")
        sync_file(temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


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


def remove_directory(path: Path) -> None:
    """Remove a folder if it is there; it is never seen half removed under its own name."""
    if not path.exists():
        return
    doomed = temporary_sibling(path)
    os.rename(path, doomed)
    shutil.rmtree(doomed, ignore_errors=True)


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
        elif _TEMPORARY.fullmatch(entry.name):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
