"""Bundles: the one format of everything saved, agents and checkpoints alike.

A bundle is a folder of `<name>.safetensors` and `<name>.json` files and a `manifest.json` with
the size and SHA-256 of each. Nothing in it can run code when it is loaded. The checksums detect
damage; they do not prove who wrote the files.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from resel.errors import BadInputError, DamagedFileError, RunDirectoryError
from resel.runs._files import (
    aside_of,
    whole_directory,
    write_file,
    writing,
)
from resel.runs._manifest import (
    DOCUMENT_BYTES,
    MANIFEST,
    BundleKind,
    is_plain,
    read_checked,
    read_manifest,
    write_manifest,
)
from resel.runs._reading import MOST_VALUES, check_regular, damaged, parse_json
from resel.runs._tensors import check_header, pack_tensors, parse_tensors, tensors_to_bytes

_LITTER = {".DS_Store"}  # a file manager puts it wherever somebody looks
_PATIENCE = 10.0
"""Seconds in which a bundle that others replace while it is read is read again."""
_PAUSES = (0.001, 0.002, 0.005, 0.011, 0.023)
"""Between two tries, in seconds; each in turn, so that no rhythm of saving is met every time."""


@dataclass(frozen=True)
class Bundle:
    """What `read_bundle` found, all of it checked against the manifest."""

    tensors: Mapping[str, dict[str, torch.Tensor]]
    """Per tensor file, its tensors by name; on the CPU and independent of the file."""
    documents: Mapping[str, Any]
    """The JSON documents by name."""


def write_bundle(
    path: str | os.PathLike[str],
    kind: BundleKind,
    tensors: Mapping[str, Mapping[str, torch.Tensor]],
    documents: Mapping[str, Any],
) -> None:
    """Save a bundle; one that is already there stays loadable until the new one is complete.

    Documents come back as JSON gives them: tuples as lists, keys as strings.
    """
    target = Path(path).resolve()
    _check_names([f"{n}.safetensors" for n in tensors] + [f"{n}.json" for n in documents])
    packed = {f"{name}.safetensors": pack_tensors(name, group) for name, group in tensors.items()}
    texts = {f"{name}.json": _as_json(name, value) for name, value in documents.items()}
    for occupied in (target, aside_of(target)):
        _refuse_foreign(occupied)
    with (
        writing(
            f"The {kind} could not be saved to {target}",
            "Nothing half written is left in its place; check free space and permissions, then "
            "save again.",
        ),
        whole_directory(target) as temporary,
    ):
        entries = {
            file: write_file(temporary / file, [tensors_to_bytes(packed[file])]) for file in packed
        }
        entries |= {file: write_file(temporary / file, [texts[file]]) for file in texts}
        write_manifest(temporary, kind, entries)


def read_bundle(path: str | os.PathLike[str], kind: BundleKind) -> Bundle:
    """Load a bundle, refusing anything that is not exactly what was written."""
    where, end = Path(path), time.monotonic() + _PATIENCE
    seen_before = False
    for pause in itertools.cycle(_PAUSES):
        place = _locate(where, kind)
        before = _identity(place)
        bundle, fault = None, None
        try:
            bundle = _read(place, kind)
        except DamagedFileError as error:
            fault = error
        # Someone may be saving to the same path right now: what was read only counts if the
        # folder stayed the same one from the first byte to the last.
        unchanged = before is not None and _identity(find_bundle(where)) == before
        if unchanged and bundle is not None:
            return bundle
        if unchanged and fault is not None:
            # A folder that took its place in the same tick of the clock may look like the same one.
            if seen_before:
                raise fault
            seen_before = True
        else:
            seen_before = False
        if time.monotonic() > end:
            break
        time.sleep(pause)
    raise DamagedFileError(
        f"{where} was replaced again and again while it was being read. Wait until the process "
        "that saves to it has finished, or read a copy."
    )


def read_document(path: str | os.PathLike[str], kind: BundleKind, name: str) -> Any:
    """One JSON document of a bundle, checked like all of it."""
    folder, file = _locate(Path(path), kind), f"{name}.json"
    entry = _checked_manifest(folder, kind).get(file)
    if entry is None:
        raise damaged(folder / file, "is not listed in the manifest")
    return parse_json(folder / file, read_checked(folder / file, entry["size"], entry["sha256"]))


def find_bundle(path: str | os.PathLike[str]) -> Path | None:
    """The folder that holds the bundle of this path now, or None.

    It is not `path` itself if a process was killed in the middle of replacing it.
    """
    where = Path(path)
    aside = aside_of(where.resolve())
    for _ in range(10):  # between two looks, a save going on may move the bundle
        if (where / MANIFEST).is_file():
            return where
        if not where.exists() and (aside / MANIFEST).is_file():
            return aside
    return None


def _check_names(files: Iterable[str]) -> None:
    for file in files:
        if not is_plain(file):
            raise BadInputError(
                f"{file!r} cannot be a file of a bundle: use letters, digits, '.', '_' and '-', "
                f"and a name other than {MANIFEST}."
            )


def _as_json(name: str, value: Any) -> bytes:
    try:
        text = json.dumps(value, indent=1, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise BadInputError(
            f"The document {name!r} cannot be saved as JSON: {error}. Use plain numbers (finite), "
            "strings, lists and dicts; arrays belong into tensors."
        ) from error
    if len(text) > DOCUMENT_BYTES:
        raise BadInputError(
            f"The document {name!r} has {len(text)} bytes, more than {DOCUMENT_BYTES}: "
            "save large data as tensors."
        )
    if text.count(b",") >= MOST_VALUES:
        raise BadInputError(
            f"The document {name!r} holds more than {MOST_VALUES} values: save large data as "
            "tensors."
        )
    return text


def _refuse_foreign(path: Path) -> None:
    """Leave alone whatever was not written by `write_bundle`."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    remedy = "Nothing was changed; choose another path or move it away."
    if not path.is_dir():
        raise RunDirectoryError(f"{path} is a file and will not be replaced by a folder. {remedy}")
    try:
        listed = set(read_manifest(path / MANIFEST)["files"])
    except DamagedFileError as error:
        raise RunDirectoryError(
            f"{path} is not a bundle saved by resel, or its {MANIFEST} is damaged, and will not be "
            f"replaced. {remedy}"
        ) from error
    foreign = sorted({entry.name for entry in path.iterdir()} - listed - {MANIFEST} - _LITTER)
    if foreign:
        raise RunDirectoryError(
            f"{path} also holds files that are not part of the saved bundle "
            f"({', '.join(foreign[:3])}) and will not be replaced. {remedy}"
        )


def _locate(path: Path, kind: BundleKind) -> Path:
    also = " or a run directory" if kind == "agent" else ""
    try:
        place = find_bundle(path)
    except OSError as error:
        raise RunDirectoryError(
            f"{path} cannot be looked into ({error.strerror}). Check its permissions."
        ) from error
    if place is not None:
        return place
    if path.is_dir():
        raise DamagedFileError(
            f"{path} has no {MANIFEST}, so it is not a saved {kind} or not all of one. Give the "
            f"folder in which {MANIFEST} lies{also}, or use an earlier copy."
        )
    if path.exists():
        raise RunDirectoryError(
            f"{path} is a file, but a saved {kind} is a folder with a {MANIFEST}. "
            f"Give the path of that folder{also}."
        )
    raise RunDirectoryError(
        f"There is no saved {kind} at {path}. Check the path: it must be the folder of one{also}."
    )


def _identity(folder: Path | None) -> tuple[int, int, int] | None:
    try:
        state = os.stat(folder) if folder is not None else None
    except OSError:
        return None
    return None if state is None else (state.st_dev, state.st_ino, state.st_mtime_ns)


def _read(folder: Path, kind: BundleKind) -> Bundle:
    files = _checked_manifest(folder, kind)
    for file, entry in files.items():  # all before any is read
        check_regular(folder / file, entry["size"])
        if file.endswith(".safetensors"):
            check_header(folder / file)
    tensors: dict[str, dict[str, torch.Tensor]] = {}
    documents: dict[str, Any] = {}
    for file, entry in files.items():
        data = read_checked(folder / file, entry["size"], entry["sha256"])
        name, _, suffix = file.rpartition(".")
        if suffix == "json":
            documents[name] = parse_json(folder / file, data)
        else:
            tensors[name] = parse_tensors(folder / file, data)
    return Bundle(tensors=tensors, documents=documents)


def _checked_manifest(folder: Path, kind: BundleKind) -> dict[str, Any]:
    manifest = read_manifest(folder / MANIFEST)
    if manifest["kind"] != kind:
        raise DamagedFileError(
            f"{folder} holds a saved {manifest['kind']}, but a saved {kind} is needed here. "
            f"Give the path of a saved {kind}."
        )
    files: dict[str, Any] = manifest["files"]
    return files
