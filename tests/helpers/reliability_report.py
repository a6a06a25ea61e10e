"""Counts of the faults that were survived, as a page: `pytest --reliability-report=FILE`.

A test calls the fixture `tally`; the counts of equal names are added up over all tests that passed.
"""

from __future__ import annotations

import datetime
import platform
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_PROPERTY = "reliability"

HEAD = """\
# Reliability: the last run of all tests

Written by `make test-all` from what the tests in `tests/faults` count themselves. A count is of
faults that were really made: signals sent to processes of the command, files changed on disk, calls
interrupted. What is promised is in [What you can rely on](../../reliability.md).

"""


@pytest.fixture
def tally(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """`tally(name, good, tried)`: of so many faults, so many ended as they should."""

    def add(name: str, good: int, tried: int | None = None) -> None:
        record_property(_PROPERTY, [name, good, good if tried is None else tried])

    return add


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reliability-report", metavar="FILE", help="write the counts of faults here")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    path = config.getoption("--reliability-report")
    reports = [r for r in terminalreporter.stats.get("passed", ()) if r.when == "call"]
    counts = _counts(reports)
    if path is None or not counts:
        return
    outcomes = {kind: len(terminalreporter.stats.get(kind, ())) for kind in ("failed", "error")}
    text = HEAD + _setting(len(reports), outcomes) + _table(counts)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
    terminalreporter.write_line(f"Reliability report: {path}")


def _counts(reports: list[Any]) -> dict[str, tuple[int, int]]:
    good: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    for report in reports:
        for name, value in report.user_properties:
            if name == _PROPERTY:
                good[value[0]] += value[1]
                tried[value[0]] += value[2]
    return {name: (good[name], tried[name]) for name in sorted(tried)}


def _setting(passed: int, outcomes: dict[str, int]) -> str:
    from resel.runs import describe_machine

    machine = describe_machine("cpu")
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    ).stdout.strip()
    bad = ", ".join(f"{number} {kind}" for kind, number in outcomes.items())
    return (
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, commit {commit or 'unknown'}: "
        f"{passed:,} tests passed, {bad}.\n{machine['cpu']}, {platform.system()}, "
        f"Python {platform.python_version()}, torch {machine['versions']['torch']}.\n\n"
    )


def _table(counts: dict[str, tuple[int, int]]) -> str:
    lines = ["| fault | made | ended as it should |", "|---|---:|---:|"]
    lines += [f"| {name} | {tried:,} | {good:,} |" for name, (good, tried) in counts.items()]
    return "\n".join(lines) + "\n"
