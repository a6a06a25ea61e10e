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
    assert main([*command, "longer.gif", "--env-kwargs", "length=30"]) == 0
    with Image.open(tmp_path / "longer.gif") as film:
        assert film.size == (31 * 24, 3 * 24)
    assert "has no argument 'lenght'" in refused(
        capsys, *command, "a.gif", "--env-kwargs", "lenght=3"
    )
    for name in ("maze.avi", "maze"):
        assert "write to a .gif or .mp4 file" in refused(capsys, *command, name)
    assert "--episodes 0" in refused(capsys, *command, "a.gif", "--episodes", "0")


def test_a_drawing_over_time(finished: Path, capsys: Any, tmp_path: Path) -> None:
    command = ["watch", str(finished), "--out"]
    assert main([*command, "drawn/maze.png", "--episodes", "2"]) == 0
    assert "Drawing: drawn/maze.png" in capsys.readouterr().out
    with Image.open(tmp_path / "drawn/maze.png") as picture:
        assert picture.width > picture.height > 500
    assert "at most 8" in refused(capsys, *command, "a.png", "--episodes", "9")
