"""Whether an exported policy is what was written, and does here what it did there."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from resel.deploy._compare import TOLERANCE, Outcome, compare
from resel.deploy._document import FORMAT, VERSION
from resel.deploy._header import check_header
from resel.deploy._onnx import Session
from resel.deploy._vectors import Vectors
from resel.errors import DamagedFileError, ReselError, RunDirectoryError
from resel.runs import parse_json, read_regular

_MOST_BYTES = 2**31
_DOCUMENT_BYTES = 2**24
HEADER = "policy.h"
_NEEDED = {"policy.onnx", "check.npz", "policy.py"}


def is_export(path: Path) -> bool:
    """Whether there is an export, whole or not."""
    return (path / "policy.json").is_file()


def read_about(path: Path) -> dict[str, Any]:
    """What policy.json says; refused if it is of another version or not to be understood."""
    if not is_export(path):
        what = "is no exported policy: it has no policy.json" if path.is_dir() else "is no folder"
        raise RunDirectoryError(
            f"{path} {what}. Give the folder that `resel export RUN --out FOLDER` has written."
        )
    file = path / "policy.json"
    about = parse_json(file, read_regular(file, _DOCUMENT_BYTES))
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise DamagedFileError(f"{file} does not describe a policy that resel exported.")
    if about.get("version") != VERSION:
        raise DamagedFileError(
            f"{path} was exported in version {about.get('version')!r}, but this resel reads "
            f"{VERSION}: check it with the resel that wrote it, or export the agent again."
        )
    files: Any = about.get("files")
    good = isinstance(files, dict) and all(
        isinstance(e, dict) and type(e.get("size")) is int and isinstance(e.get("sha256"), str)
        for e in files.values()
    )
    names = set(files) if good else set()
    if not names >= _NEEDED or any(Path(name).name != name for name in names):
        raise DamagedFileError(f"{file} does not list the files of an export: it was altered.")
    return about


def files_of(path: Path) -> set[str]:
    """Names that belong to the export in a folder, which may be damaged or of another version."""
    if not is_export(path):
        return set()
    known, file = {"policy.json", HEADER, "__pycache__", *_NEEDED}, path / "policy.json"
    try:
        about = parse_json(file, read_regular(file, _DOCUMENT_BYTES))
    except ReselError:  # with all that else belongs to one, it must have been ours
        return known if all((path / name).is_file() for name in _NEEDED) else set()
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        return set()
    files = about.get("files")
    return known | {*files} if isinstance(files, dict) else known


def read_files(path: Path, about: Mapping[str, Any]) -> dict[str, bytes]:
    """Every file of an export, byte for byte as it was written."""
    return {
        name: read_regular(path / name, _MOST_BYTES, entry["size"], entry["sha256"])
        for name, entry in about["files"].items()
    }


def check_export(path: Path, *, compiles: bool = True) -> dict[str, Outcome | None]:
    """Run all steps of check.npz again; by runtime how far they are from what was expected.

    That of C is None on a machine without a compiler, and not there without a header, or if it is
    not to be compiled. Refuses an export that was altered, and one that acts differently here.
    """
    about = read_about(path)
    files = read_files(path, about)
    session = Session(path / "policy.onnx")
    told = {name: value for name, value in about.items() if name != "files"}
    if session.metadata.get("resel") != json.dumps(told):
        raise DamagedFileError(
            f"{path / 'policy.json'} is not what policy.onnx says of itself: it was altered, or "
            "the files are of two exports. Copy both again."
        )
    vectors = Vectors.from_bytes(files["check.npz"], path / "check.npz")
    try:
        found: dict[str, Outcome | None] = {"ONNX Runtime": compare(session, vectors, about)}
        if compiles and HEADER in files:
            found["C"] = check_header(files[HEADER].decode(), vectors, about)
    except ReselError:
        raise
    except (LookupError, ValueError) as error:
        raise DamagedFileError(f"The check of {path} cannot be run: {error}.") from error
    for runtime, outcome in found.items():
        if outcome is not None and not outcome.good:
            raise DamagedFileError(
                f"With {runtime}, the policy in {path} does not do what it was exported to do: it "
                f"is {outcome.worst:.2g} off where {TOLERANCE:g} is allowed. Do not use it here; "
                "try other versions of the runtime, or export again."
            )
    return found


def open_policy(path: Path, **options: Any) -> Any:
    """The policy in a folder, by the loader that lies there."""
    spec = importlib.util.spec_from_file_location("exported_policy", path / "policy.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Policy(path, **options)
