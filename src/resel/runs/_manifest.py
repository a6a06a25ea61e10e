"""The manifest of a bundle: what belongs to it, and how to tell that a file is still what it was.

{"format": "resel-bundle", "version": 5, "kind": "agent",
 "files": {"policy.safetensors": {"size": 1024, "sha256": "..."}}}
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from resel.errors import DamagedFileError
from resel.runs._files import write_file
from resel.runs._reading import damaged, parse_json, read_regular

BundleKind = Literal["agent", "checkpoint"]

FORMAT = "resel-bundle"
VERSION = 5
MANIFEST = "manifest.json"
DOCUMENT_BYTES = 2_000_000
TENSOR_BYTES = 4_000_000_000

_MANIFEST_BYTES = 1_000_000
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.(?:safetensors|json)")


def is_plain(file: str) -> bool:
    """Whether a name may stand in a manifest: no folders, no hidden files, no other types."""
    return _FILE_NAME.fullmatch(file) is not None and file != MANIFEST


def write_manifest(folder: Path, kind: BundleKind, entries: Mapping[str, tuple[int, str]]) -> None:
    """Describe finished files, each by its size and SHA-256."""
    files = {file: {"size": size, "sha256": digest} for file, (size, digest) in entries.items()}
    manifest = {"format": FORMAT, "version": VERSION, "kind": kind, "files": files}
    write_file(folder / MANIFEST, [json.dumps(manifest, indent=1).encode()])


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest with every field checked, so that the rest may rely on it."""
    data = parse_json(path, read_regular(path, _MANIFEST_BYTES))
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise damaged(path, f"does not describe a {FORMAT}")
    check_version(path, data.get("version"))
    if set(data) != {"format", "version", "kind", "files"} or not isinstance(data["files"], dict):
        raise damaged(path, "does not have exactly the entries format, version, kind and files")
    if data["kind"] not in ("agent", "checkpoint"):
        raise damaged(path, f"has an unknown kind {data['kind']!r}")
    for file, entry in data["files"].items():
        if not is_plain(file):
            raise damaged(path, f"lists {file!r}, which is not a plain file name of a bundle")
        good = isinstance(entry, dict) and set(entry) == {"size", "sha256"}
        if not (good and type(entry["size"]) is int and is_digest(entry["sha256"])):
            raise damaged(path, f"does not give size and sha256 of {file}")
    return data


def check_version(path: Path, version: Any) -> None:
    """Refuse what another resel has written in another format."""
    if type(version) is not int or version < 1:
        raise damaged(path, f"has no valid version (found {version!r})")
    if version > VERSION:
        raise DamagedFileError(
            f"{path} was saved in format version {version}, but this resel reads only up to "
            f"{VERSION}. Update resel: pip install --upgrade resel."
        )
    if version < VERSION:
        raise DamagedFileError(
            f"{path} was saved in format version {version} by an older resel; this one reads "
            f"version {VERSION}. Use it with the resel that saved it, or train anew."
        )


def read_checked(path: Path, size: int, digest: str) -> bytes:
    """The content of a file that is, byte for byte, the one that was written."""
    most = DOCUMENT_BYTES if path.suffix == ".json" else TENSOR_BYTES
    return read_regular(path, most, size, digest)


def is_digest(value: Any) -> bool:
    """Whether this is a SHA-256 as text."""
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None
