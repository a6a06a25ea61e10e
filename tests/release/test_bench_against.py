"""The tool that measures two checkouts in turn."""

from __future__ import annotations

import csv
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "bench_against.py"))


def test_medians_of_what_both_have(tool: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    other = Path("elsewhere")
    given = {
        other: iter([{"a": 1.0, "old": 1.0}, {"a": 9.0}, {"a": 2.0}]),
        ROOT: iter([{"a": 4.0}, {"a": 3.0}, {"a": 8.0, "new": 1.0}]),
    }
    order = []

    def measure(checkout: Path, words: list[str]) -> dict[str, float]:
        order.append(checkout)
        assert words == ["scan"]
        return next(given[checkout])

    monkeypatch.setitem(tool["compare"].__globals__, "measure", measure)
    assert tool["compare"](other, ["scan"], 3) == [("a", 2.0, 4.0)]
    assert order == [other, ROOT] * 3, "in turn"


def test_attempts_are_paired(
    tool: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    other, calls = tmp_path, []
    (other / "src" / "resel").mkdir(parents=True)

    def told_by(checkout: Path, words: list[str]) -> dict[str, Any]:
        flags = dict(zip(words[1::2], words[2::2], strict=True))
        task, seed = flags["--tasks"], int(flags["--first-seed"])
        calls.append((checkout, task, seed))
        assert words[0] == "solve" and flags["--repetitions"] == "1"
        assert flags["--steps"] == "500"
        assert flags["--runs"] == f"kept/{'this' if checkout == ROOT else 'other'}"
        if checkout == other and (task, seed) == ("B-v0", 2):  # as one that diverges was once
            raise subprocess.CalledProcessError(2, words)
        new = {"best_return": 1.0, "num_envs": None, "ended": "limit"} if checkout == ROOT else {}
        took = {"steps": 20_000 * seed, "minutes": 2.0, "processor_minutes": 1.0}
        if checkout == ROOT:
            took = {"steps": 10_000 * seed, "minutes": 3.0, "processor_minutes": 1.5}
        attempt = {"task": task, "method": "resel", "seed": seed, "solved": seed == 1} | took | new
        return {"attempts": [attempt]}

    monkeypatch.setitem(tool["measure"].__globals__, "told_by", told_by)
    words = ["solve", "--tasks", "A-v0", "B-v0", "--steps", "500", "--runs", "kept"]
    kept = tmp_path / "pairs.csv"
    assert tool["main"](["--rounds", "2", "--csv", str(kept), str(other), *words]) == 0
    order = [("A-v0", 1), ("B-v0", 1), ("A-v0", 2), ("B-v0", 2)]
    assert calls == [(checkout, *both) for both in order for checkout in (other, ROOT)]
    told = capsys.readouterr()
    assert "--tasks B-v0 --first-seed 2" in told.err and "left out" in told.err
    lines = [" ".join(line.split()) for line in told.out.splitlines()]
    first = lines.index("A-v0, resel, seed 1")
    assert lines[first + 1 : first + 5] == [
        "solved 1 of 1 1 of 1",
        "steps 20,000 10,000 0.500",
        "minutes 2 3 1.500",
        "processor_minutes 1 1.5 1.500",
    ]
    both = lines.index("A-v0, resel: medians of 2, unsolved ones with all they took")
    assert lines[both + 1 : both + 3] == ["solved 1 of 2 1 of 2", "steps 30,000 15,000 0.500"]
    assert any(line.startswith("B-v0, resel: medians of 1,") for line in lines)
    with kept.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["checkout"], row["task"], row["seed"]) for row in rows] == [
        (side, *both)
        for both in (("A-v0", "1"), ("B-v0", "1"), ("A-v0", "2"))
        for side in ("other", "this")
    ]
    assert [row["steps"] for row in rows[:2]] == ["20000", "10000"]
    for wrong, why in ((["--repetitions", "2"], "a round is a seed"), ([], "--tasks")):
        with pytest.raises(SystemExit):
            tool["main"]([str(other), "solve", *(["--tasks", "A-v0"] if wrong else []), *wrong])
        assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere", "scan"], "no checkout of resel"),
        ([str(ROOT)], "name a part"),
        (["--rounds", "0", str(ROOT), "scan"], "one round at least"),
    ],
)
def test_what_it_cannot_measure_is_said(
    tool: dict[str, Any], words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        tool["main"](words)
    assert told in capsys.readouterr().err


def test_both_are_run(tool: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--rounds", "1", str(ROOT), "update", "--size", "tiny", "--batch-steps", "20"]
    assert tool["main"]([*words, "--repetitions", "1", "--threads", "1"]) == 0
    lines = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()[1:]}
    assert float(lines["update_ms"][0]) > 0 and len(lines["update_ms"]) == 3
