"""The tool that measures two checkouts in turn."""

from __future__ import annotations

import runpy
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
