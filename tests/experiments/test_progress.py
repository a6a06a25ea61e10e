"""What somebody sees who waits for a sweep."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from fake_runs import fake_job, write_run
from rich.console import Console

from resel.experiments import progress
from resel.experiments.engines import Ledger, read_state
from resel.experiments.progress import SweepTable


def test_the_live_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    jobs = [fake_job(tmp_path, f"run{i}") for i in range(3)]
    ledger = Ledger.of(jobs)
    said = io.StringIO()
    console = Console(file=said, force_terminal=True, width=100, color_system=None)
    with SweepTable(ledger, console) as table:
        ledger.started(jobs[0])
        write_run(jobs[0].run, [{"step": 60, "kind": "eval", "return_mean": -12.5}], status=None)
        clock[0] = 60.0
        table.tick()
    screen = said.getvalue()
    assert "0 of 3 runs done, 1 running, 0 failed" in screen
    # 60 of 300 steps in 60 seconds: 240 more.
    assert "left 4.0 min" in screen
    assert re.search(r"run0 +running +60/100 +-12.5", screen)


def test_a_run_that_goes_on_is_where_its_metrics_are(tmp_path: Path) -> None:
    """And not where the result of the time it was stopped says."""
    job = fake_job(tmp_path, "run")
    lines = [{"step": 60, "kind": "eval", "return_mean": -12.5}]
    write_run(job.run, lines, status="interrupted", steps=40)
    assert (read_state(job).status, read_state(job).step) == ("waiting", 60)


def test_plain_lines_where_there_is_no_terminal(tmp_path: Path) -> None:
    job = fake_job(tmp_path, "run")
    ledger = Ledger.of([job], attempts=2)
    said = io.StringIO()
    with SweepTable(ledger, Console(file=said, width=100)) as table:
        for _ in range(2):
            ledger.started(job)
            table.tick()
            ledger.ended(job, 1, "exit code 1: [bold] words")
    assert said.getvalue().splitlines() == [
        "run: running",
        "run: exit code 1: [bold] words (will be tried again)",
        "run: running",
        "run: exit code 1: [bold] words (given up)",
    ]


def test_many_runs_are_cut_short(tmp_path: Path) -> None:
    jobs = [fake_job(tmp_path, f"run{i}") for i in range(15)]
    ledger = Ledger.of(jobs)
    said = io.StringIO()
    console = Console(file=said, force_terminal=True, width=100, color_system=None)
    with SweepTable(ledger, console):
        for job in jobs:
            ledger.started(job)
    assert "and 3 more" in said.getvalue() and "left -" in said.getvalue()
