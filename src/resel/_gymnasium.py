"""Our tasks are known to Gymnasium wherever both are imported, in whatever order.

`import resel` loads neither Gymnasium nor the tasks: whoever loads Gymnasium later gets both.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_NAME = "gymnasium"


def register_when_imported() -> None:
    """Register the tasks at once if Gymnasium is there, or else right after its import."""
    if _NAME in sys.modules:
        _register()
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _register() -> None:
    importlib.import_module("resel.tasks")


class _Finder(MetaPathFinder):
    """Finds Gymnasium as it would be found without us, until it is loaded."""

    _looking = False

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname != _NAME or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)
        return spec


class _Loader(Loader):
    """Loads Gymnasium as its own loader does, and then our tasks."""

    def __init__(self, own: Loader, finder: _Finder) -> None:
        self._own, self._finder = own, finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self._own
        self._own.exec_module(module)
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        if "resel.envs" not in sys.modules:  # which is on its way, and the tasks stand on it
            _register()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)
