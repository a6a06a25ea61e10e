"""Files with environments, run as modules.

A file is run once for what it holds: one that was changed is run again, also in the same process.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import warnings
from pathlib import Path
from types import ModuleType

from resel.errors import (
    ConfigError,
    EnvironmentFault,
    MissingDependencyError,
    ReselError,
    UnknownTaskError,
)

ENDING = ".py"
_running: set[str] = set()
"""Modules whose file is being run."""
_digests: dict[Path, str] = {}
"""Of every file as it was when it was last run, or first asked for."""


def digest_of(path: Path) -> str | None:
    """SHA-256 of a file as this process knows it; None if it is not there."""
    if path not in _digests and path.is_file():
        _digests[path] = _digest(path.read_bytes())
    return _digests.get(path)


def run_file(path: Path) -> ModuleType:
    """The module that a file makes, the same one as long as the file does not change."""
    source = _read(path)
    digest = _digest(source)
    name = f"{path.stem}_{_digest(str(path).encode())[:8]}_{digest[:8]}"
    if name in _running:
        raise ConfigError(
            f"{path} trains in an environment of its own file while that is being read: put what "
            'it does under `if __name__ == "__main__":`.'
        )
    _digests[path] = digest
    if name in sys.modules:
        return sys.modules[name]
    try:
        code = compile(source, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:  # ValueError: zero bytes
        at = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ConfigError(f"{path} is no Python that can be read{at}: {why}.") from error
    make_importable(path.parent)  # what lies beside it
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    _running.add(name)
    try:
        with warnings.catch_warnings():  # a changed file registers its environments again
            warnings.filterwarnings("ignore", ".*Overriding environment")
            exec(code, module.__dict__)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt | ReselError):
            raise
        kind = MissingDependencyError if isinstance(error, ImportError) else EnvironmentFault
        raise kind(
            f"{path} cannot be run{line_of(error, str(path))}: {type(error).__name__}: {error}"
        ) from error
    finally:
        _running.discard(name)
    return module


def _read(path: Path) -> bytes:
    if path.suffix != ENDING:
        raise ConfigError(f"{path} is no Python file: its name does not end in .py.")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UnknownTaskError(
            f"The file of the environment is not there: {path}. Check the path. If it was moved, "
            "put it back; Agent.load(path, env=...) takes an agent into another one."
        ) from None
    except OSError as error:
        raise UnknownTaskError(
            f"The file of the environment cannot be read: {path} ({error.strerror})."
        ) from error


def make_importable(folder: Path) -> None:
    """Modules of the folder are found, after everything that is installed."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    importlib.invalidate_caches()  # or a file that was just written may not be seen


def line_of(error: BaseException, file: str) -> str:
    """In words, the last line of the file that an error went through."""
    found, trace = "", error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            found = f" (line {trace.tb_lineno} of {os.path.basename(file)})"
        trace = trace.tb_next
    return found


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
