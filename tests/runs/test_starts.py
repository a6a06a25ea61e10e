"""When and how a run was started: kept through every resume, in the way of none."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from resel.runs import RunDirectory
from resel.runs.starts import command_line, starts_with_this


def test_every_start_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunDirectory.create(tmp_path / "run", {}) as run:
        first = starts_with_this(run)
        run.write_environment({"cpu": "x", "starts": first})
        monkeypatch.setattr("resel.runs.starts.command_line", lambda: "resel resume run")
        both = starts_with_this(run)
        assert both[0] == first[0] and both[1]["command"] == "resel resume run"
        age = datetime.now(UTC) - datetime.fromisoformat(both[1]["at"])
        assert 0 <= age.total_seconds() < 60


@pytest.mark.parametrize("text", ["{", "[]", '{"starts": 3}', '{"cpu": "x"}'])
def test_a_record_that_cannot_be_read_stops_nothing(tmp_path: Path, text: str) -> None:
    with RunDirectory.create(tmp_path / "run", {}) as run:
        (run.path / "environment.json").write_text(text)
        assert len(starts_with_this(run)) == 1


@pytest.mark.parametrize(
    ("module", "program", "typed"),
    [
        (None, "/usr/bin/resel", "resel train 'a b'"),
        (None, "my program.py", "'my program.py' train 'a b'"),
        ("resel.__main__", "/somewhere/resel/__main__.py", "resel train 'a b'"),
    ],
)
def test_the_command_is_as_one_types_it(
    monkeypatch: pytest.MonkeyPatch, module: str | None, program: str, typed: str
) -> None:
    spec = None if module is None else SimpleNamespace(name=module)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", spec)
    monkeypatch.setattr(sys, "argv", [program, "train", "a b"])
    assert command_line() == typed
