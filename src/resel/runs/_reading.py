"""Reading files that may be damaged or made by somebody else.

A file is looked at before it is opened and again when it is open: a pipe would block, a link leads
elsewhere, and a second name of the same file lets somebody change it behind its back.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
from pathlib import Path
from typing import Any, NoReturn

from resel.errors import DamagedFileError

MOST_VALUES = 200_000
"""In a JSON file: a number of one digit takes two bytes there and dozens when it is read."""


def damaged(path: Path, problem: str) -> DamagedFileError:
    """The error for one file and what is wrong with it."""
    return DamagedFileError(f"{path} {problem}. Use an earlier copy or save it again.")


def altered(path: Path) -> DamagedFileError:
    """The error for a file that is not, byte for byte, the one that was written."""
    return damaged(path, "does not match its SHA-256: its content was altered or damaged")


def check_regular(path: Path, size: int | None = None) -> int:
    """The size of an ordinary file with one name, which must be `size` if that is known."""
    try:
        state = os.lstat(path)
    except OSError as error:
        raise damaged(path, f"is missing or cannot be opened ({error.strerror})") from error
    return _check(path, state, size)


def open_regular(path: Path, size: int | None = None) -> io.FileIO:
    """Open an ordinary file for reading, without following links or waiting for a pipe."""
    check_regular(path, size)
    try:
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        stream = io.FileIO(os.open(path, flags), "rb")
    except OSError as error:
        raise damaged(path, f"is missing or cannot be opened ({error.strerror})") from error
    try:
        _check(path, os.fstat(stream.fileno()), size)
    except BaseException:
        stream.close()
        raise
    return stream


def read_regular(
    path: Path, most: int, size: int | None = None, sha256: str | None = None
) -> bytes:
    """All bytes of an ordinary file of at most `most` bytes, with this hash if it is known."""
    found = check_regular(path, size)
    if found > most:
        raise damaged(path, f"has {found} bytes, more than the {most} allowed")
    try:
        with open_regular(path, found) as stream, io.BufferedReader(stream) as reader:
            if sha256 is not None:  # before it takes any memory
                if hashlib.file_digest(reader, "sha256").hexdigest() != sha256:
                    raise altered(path)
                reader.seek(0)
            data = reader.read(found)
    except OSError as error:
        raise damaged(path, f"cannot be read ({error.strerror})") from error
    if len(data) != found:
        raise damaged(path, "became shorter while it was read")
    return data


def parse_json(path: Path, data: bytes) -> Any:
    """JSON as the standard has it: no name twice in an object, no NaN."""
    if data.count(b",") >= MOST_VALUES:  # before it takes many times its size in memory
        raise damaged(path, f"holds more than {MOST_VALUES} values")
    try:
        return json.loads(data, object_pairs_hook=_without_repeats, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"cannot be read as JSON ({error})") from error


def _check(path: Path, state: os.stat_result, size: int | None) -> int:
    if not stat.S_ISREG(state.st_mode):
        raise damaged(path, "is not a regular file (links are not followed)")
    if state.st_nlink > 1:
        raise damaged(path, "is a hard link: it has a second name, by which it may be changed")
    if size is not None and state.st_size != size:
        raise damaged(
            path, f"has {state.st_size} bytes instead of {size}: it was cut off or altered"
        )
    return state.st_size


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):  # one flipped bit can turn a name into its neighbour's
        raise ValueError("a key is given twice")
    return result


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")
