"""The manifest of a bundle: what belongs to it, and how to tell that a file is still what it was.

{"format": "resel-bundle", "version": 1, "kind": "agent",
 "files": {"policy.safetensors": {"size": 1024, "sha256": "..."}}}
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from resel.errors import DamagedFileError
from resel.runs._files import sync_file

BundleKind = Literal["agent", "checkpoint"]

FORMAT = "resel-bundle"
VERSION = 1
MANIFEST = "manifest.json"
DOCUMENT_BYTES = 64_000_000

_MANIFEST_BYTES = 1_000_000
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.(?:safetensors|json)")


def is_plain(file: str) -> bool:
    """Whether a name may stand in a manifest: no folders, no hidden files, no other types."""
    return _FILE_NAME.fullmatch(file) is not None and file != MANIFEST


def write_manifest(folder: Path, kind: BundleKind, files: Iterable[str]) -> None:
    """Describe finished files, all of which are on the disk when this returns."""
    entries = {}
    for file in files:
        sync_file(folder / file)
        size = (folder / file).stat().st_size
        entries[file] = {"size": size, "sha256": _sha256(folder / file)}
    manifest = {"format": FORMAT, "version": VERSION, "kind": kind, "files": entries}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    sync_file(folder / MANIFEST)


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest with every field checked, so that the rest may rely on it."""
    size = _regular_size(path)
    if size > _MANIFEST_BYTES:
        raise damaged(path, f"has {size} bytes, more than the {_MANIFEST_BYTES} allowed")
    try:
        data = json.loads(path.read_bytes(), object_pairs_hook=_without_repeats)
    except (OSError, ValueError, RecursionError) as error:
        raise damaged(path, f"cannot be read as JSON ({error})") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise damaged(path, f"does not describe a {FORMAT}")
    version = data.get("version")
    if type(version) is not int or version < 1:
        raise damaged(path, f"has no valid version (found {version!r})")
    if version > VERSION:
        raise DamagedFileError(
            f"{path} was saved in format version {version}, but this resel reads only up to "
            f"{VERSION}. Update resel: pip install --upgrade resel."
        )
    if set(data) != {"format", "version", "kind", "files"} or not isinstance(data["files"], dict):
        raise damaged(path, "does not have exactly the entries format, version, kind and files")
    if data["kind"] not in ("agent", "checkpoint"):
        raise damaged(path, f"has an unknown kind {data['kind']!r}")
    for file, entry in data["files"].items():
        if not is_plain(file):
            raise damaged(path, f"lists {file!r}, which is not a plain file name of a bundle")
        good = isinstance(entry, dict) and set(entry) == {"size", "sha256"}
        if not (good and type(entry["size"]) is int and isinstance(entry["sha256"], str)):
            raise damaged(path, f"does not give size and sha256 of {file}")
    return data


def check_file(path: Path, size: int, digest: str) -> None:
    """Refuse a file that is not, byte for byte, the one that was written."""
    found = _regular_size(path)
    if found != size:
        raise damaged(path, f"has {found} bytes instead of {size}: it was cut off or altered")
    if path.suffix == ".json" and size > DOCUMENT_BYTES:
        raise damaged(path, f"has {size} bytes, more than the {DOCUMENT_BYTES} allowed")
    try:
        actual = _sha256(path)
    except OSError as error:
        raise damaged(path, f"cannot be read ({error.strerror})") from error
    if actual != digest:
        raise damaged(path, "does not match its SHA-256: its content was altered or damaged")


def damaged(path: Path, problem: str) -> DamagedFileError:
    """The error for one file of a bundle and what is wrong with it."""
    return DamagedFileError(f"{path} {problem}. Use an earlier copy or save it again.")


def _regular_size(path: Path) -> int:
    try:
        state = os.lstat(path)
    except OSError as error:
        raise damaged(path, f"is missing or cannot be opened ({error.strerror})") from error
    if not stat.S_ISREG(state.st_mode):
        raise damaged(path, "is not a regular file (links are not followed)")
    return state.st_size


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):  # one flipped bit can turn a name into its neighbour's
        raise ValueError("a key is given twice")
    return result


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
