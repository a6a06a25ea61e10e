"""When and how a run was started: kept through every resume, in the way of none."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from resel.runs import RunDirectory
from resel.runs.starts import command_line, starts_with_this

_PRINT = "from resel.runs.starts import command_line; print(command_line())"


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


def test_the_command_is_as_one_types_it(tmp_path: Path) -> None:
    script = tmp_path / "my program.py"
    script.write_text(_PRINT)
    said = subprocess.check_output([sys.executable, str(script), "a b", "--x=1"], text=True)
    assert said == "'my program.py' 'a b' --x=1\n"


def test_a_module_is_named_by_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    class Spec:
        name = "resel.cli.__main__"

    monkeypatch.setattr(sys.modules["__main__"], "__spec__", Spec)
    monkeypatch.setattr(sys, "argv", ["/somewhere/resel/cli/__main__.py", "train", "X"])
    assert command_line() == "resel train X"
