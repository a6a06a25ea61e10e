"""What the command says without loading methods is what they say themselves."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from resel.cli import _kept, main
from resel.registry import METHODS

ROOT = Path(__file__).parents[2]


def test_the_file_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("write_help", ROOT / "docs" / "write_help.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.kept_help() == _kept.FILE.read_text(encoding="utf-8"), (
        "run `python docs/write_help.py`"
    )


def test_a_fresh_process_says_the_same(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    asked = [["train", "--help"], ["resume", "--help-all"], ["methods"], ["bench", "--help"]]
    program = f"from resel.cli import main\nfor words in {asked}: main(words)"
    fresh = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert _kept.kept() is None  # methods are loaded here: they are asked themselves
    for words in asked:
        with suppress(SystemExit):
            main(words)
    assert fresh.stdout == capsys.readouterr().out and not fresh.stderr


def test_packages_that_bring_methods_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "resel.methods")
    assert _kept.kept() is not None
    monkeypatch.setattr(METHODS, "offered", lambda: ["theirs"])
    assert _kept.kept() is None
