"""Thinning, names, and the files for papers."""

from __future__ import annotations

import csv
import math
import xml.etree.ElementTree as ET
from pathlib import Path

from PIL import Image

from resel.reports.figures import Figure, Line, file_name, thin, with_own_names
from resel.reports.pictures import write_pictures


def test_thinning_keeps_peaks_and_gaps() -> None:
    values = [0.0] * 5000
    values[1234], values[4321], values[2500] = 9.0, -9.0, math.nan
    short = thin(Line("a", list(range(5000)), values, low=values, high=values))
    assert len(short.x) <= 1000
    kept = dict(zip(short.x, short.y, strict=True))
    assert kept[1234] == 9.0 and kept[4321] == -9.0 and math.isnan(kept[2500])
    assert short.low is not None and len(short.low) == len(short.x)
    assert thin(Line("a", [0, 1], [2.0, 3.0])).y == [2.0, 3.0]


def test_lines_differ_in_colour_and_dash() -> None:
    looks = {(line.colour, line.dash) for line in (Line("", [], [], group=i) for i in range(42))}
    assert len(looks) == 42


def test_names_of_files() -> None:
    assert file_name("../a b/<c>") == "a-b-c"
    assert file_name("///") == "figure"
    figures = [Figure(name, "", "", []) for name in ("a", "A", "a")]
    assert [figure.name for figure in with_own_names(figures)] == ["a", "A-2", "a-3"]


def test_pictures_and_tables(tmp_path: Path) -> None:
    lines = [
        Line("$x_1$ <a>", [0, 10], [1.0, 2.0], [0.5, 1.5], [1.5, 2.5], [3, 2], 0, "mean"),
        Line("_b", [0, 10], [3.0, math.nan], group=1, view="mean"),
        Line("a: run", [0], [1.0], view="runs"),
        Line("reported", [0, 10], [9.0, 9.0], reference=True),
    ]
    figure = Figure("f.1", "Title & $more$", "return (reward)", lines, log_y=True)
    paths = write_pictures([figure], tmp_path / "figures")
    assert [path.name for path in paths] == ["f.1.png", "f.1.svg", "f.1.csv"]
    with Image.open(paths[0]) as picture:
        assert picture.size == (1280, 800)
    words = " ".join(ET.parse(paths[1]).getroot().itertext())
    assert "return (reward)" in words and "$x_1$ <a>" in words and "_b" in words
    with paths[2].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 7
    assert rows[1] == {
        "line": "$x_1$ <a>",
        "view": "mean",
        "environment steps": "10",
        "return (reward)": "2.0",
        "low": "1.5",
        "high": "2.5",
        "runs": "2",
    }
