"""`resel plot`: curves as pictures and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PIL import Image

from resel.cli import main


def test_plot(finished: Path, tmp_path: Path, capsys: Any) -> None:
    assert main(["plot", str(finished), str(finished), "--csv", "c.csv"]) == 0
    assert "curve.png" in capsys.readouterr().out
    with Image.open(tmp_path / "curve.png") as picture:
        assert min(picture.size) > 300
    rows = (tmp_path / "c.csv").read_text().splitlines()
    assert rows[0].startswith("task,encoder,seed,step,return_mean,return_std")
    assert [row.split(",")[3] for row in rows[1:]] == ["0", "20", "40", "60"] * 2
    assert main(["plot", str(finished), "--out", "curve.svg"]) == 0
    assert "<svg" in (tmp_path / "curve.svg").read_text()
