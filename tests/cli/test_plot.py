"""`resel plot`: curves as pictures and tables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from other_methods import echo_method
from PIL import Image
from terminal import read

from resel.cli import main
from resel.methods import default_method


def test_plot(finished: Path, tmp_path: Path, capsys: Any) -> None:
    assert main(["plot", str(finished), str(finished), "--csv", "c.csv"]) == 0
    assert "curve.png" in capsys.readouterr().out
    with Image.open(tmp_path / "curve.png") as picture:
        assert min(picture.size) > 300
    rows = (tmp_path / "c.csv").read_text().splitlines()
    assert rows[0].startswith("task,method,encoder,seed,step,return_mean,return_std")
    assert [row.split(",")[4] for row in rows[1:]] == ["0", "20", "40", "60"] * 2
    assert main(["plot", str(finished), "--out", "curve.svg"]) == 0
    assert "<svg" in (tmp_path / "curve.svg").read_text()


def test_methods_are_told_apart(finished: Path, tmp_path: Path, capsys: Any) -> None:
    """In pictures, tables and reports, where their settings are the same and where not."""
    for name in ("ours", "theirs"):
        shutil.copytree(finished, tmp_path / "runs" / name)
    config = read(tmp_path / "runs/theirs/config.json")
    config |= {"method": "echo-method", "training": config["training"] | {"seed": 2}}
    (tmp_path / "runs/theirs/config.json").write_text(json.dumps(config))
    with echo_method():
        assert main(["plot", "runs/ours", "runs/theirs", "--out", "c.svg", "--csv", "c.csv"]) == 0
        assert "echo-method, seed 2" in (tmp_path / "c.svg").read_text()
        rows = [row.split(",")[:4] for row in (tmp_path / "c.csv").read_text().splitlines()]
        assert ["TMaze-v0", default_method(), "gru", "1"] in rows
        assert ["TMaze-v0", "echo-method", "gru", "2"] in rows
        assert main(["report", "runs", "--out", "page.html"]) == 0
        assert "echo-method" in (tmp_path / "page.html").read_text()
        assert capsys.readouterr().err == ""
