"""`resel watch`: films."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PIL import Image
from terminal import refused

from resel.cli import main


def test_watch(finished: Path, capsys: Any, tmp_path: Path) -> None:
    command = ["watch", str(finished), "--episodes", "2", "--out"]
    assert main([*command, "films/maze.gif"]) == 0
    assert "films/maze.gif" in capsys.readouterr().out
    with Image.open(tmp_path / "films/maze.gif") as film:
        assert film.n_frames > 1 and film.size == (21 * 24, 3 * 24)
    for name in ("maze.avi", "maze"):
        assert "write to a .gif or .mp4 file" in refused(capsys, *command, name)
    assert "--episodes 0" in refused(capsys, *command, "a.gif", "--episodes", "0")
