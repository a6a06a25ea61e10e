"""Learning curves over runs and over seeds, as `resel plot` draws them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from run_folders import write_run

from resel.analysis.statistics import seed_groups
from resel.reports.curves import draw, read_evaluated, write_csv


def _words(picture: Path) -> str:
    """The words of an SVG, one text to a line."""
    return "\n".join(ET.parse(picture).getroot().itertext())


def test_runs_that_differ_only_in_seed_are_one_line(tmp_path: Path) -> None:
    seeds = [
        write_run(tmp_path / f"g{seed}", [0.0, float(seed)], encoder="gru", seed=seed)
        for seed in (1, 2, 3)
    ]
    other = write_run(tmp_path / "other", [0.0, 5.0], encoder="gru", seed=4, gamma=0.5)
    curves = [read_evaluated(path) for path in (*seeds, other)]
    assert [[c.name for c in group] for group in seed_groups(curves)] == [
        ["g1", "g2", "g3"],
        ["other"],
    ]
    draw(curves, tmp_path / "curve.svg")
    words = _words(tmp_path / "curve.svg")
    assert "gru, gamma=0.99, 3 seeds" in words and "gru, gamma=0.5, seed 4" in words
    assert "seed 1" not in words
    write_csv(curves, tmp_path / "curve.csv")
    lines = (tmp_path / "curve.csv").read_text().splitlines()
    assert len(lines) == 1 + 4 * 2
    assert sum(line.endswith('"gru, gamma=0.99, 3 seeds"') for line in lines) == 3 * 2


def test_an_environment_in_a_file_is_called_without_its_folders(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [0.0, 1.0], task="/far/away/mine.py:Mine")
    draw([read_evaluated(run)], tmp_path / "curve.svg")
    words = _words(tmp_path / "curve.svg").splitlines()
    assert "mine.py:Mine" in words


def test_a_seed_that_is_there_twice_is_no_seed_more(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, [0.0, 1.0], encoder="gru", seed=1) for name in "ab"]
    curves = [read_evaluated(path) for path in runs]
    assert [len(group) for group in seed_groups(curves)] == [1, 1]
    draw(curves, tmp_path / "curve.svg")
    words = _words(tmp_path / "curve.svg")
    assert "gru, seed 1 (a)" in words and "gru, seed 1 (b)" in words
