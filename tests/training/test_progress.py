"""What a run tells while it goes on: a live line at a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from resel.training import ProgressLine, Trainer, TrainProgress, progress


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Console:
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0.02)
    return Console(file=io.StringIO(), highlight=False, width=200)


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def wait_for(console: Console, words: str) -> None:
    until = time.monotonic() + 10
    while words not in written(console):
        assert time.monotonic() < until, written(console)
        time.sleep(0.01)


def test_plain_lines_come_by_themselves(plain: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while a single step takes minutes."""
    with ProgressLine(0, 50_000, plain, learning_from=5000) as line:
        wait_for(plain, "step 0/50,000  left unknown (warm-up)  - updates/s  episode -  eval -\n")
        line(TrainProgress(6000, 50_000, 0, 0, None, -7.43, updates_left=45_000))
        wait_for(plain, "step 6,000/50,000  left unknown (no episode has ended yet)")
        monkeypatch.setattr(progress, "is_compiling", lambda: True)
        wait_for(plain, "left unknown (compiling kernels)")
        monkeypatch.setattr(progress, "is_compiling", lambda: False)
        line(TrainProgress(6001, 50_000, 1, 1, -12.07, -7.43, updates_left=44_000))
        line._pace.see(3, time.monotonic() + 1)
        line._pace.see(5, time.monotonic() + 2)
        wait_for(plain, "left 6:0")  # 44,000 updates at two a second
    last = written(plain).splitlines()[-1]
    assert last.endswith("2 updates/s  episode -12  eval -7.43")


def test_the_live_line_is_drawn_while_nothing_is_called() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120, highlight=False)
    with ProgressLine(3, 40, console, learning_from=10):
        wait_for(console, "left unknown (warm-up)")
        drawn = len(written(console))
        until = time.monotonic() + 10
        while len(written(console)) == drawn and time.monotonic() < until:
            time.sleep(0.05)
        assert len(written(console)) > drawn  # the sign of life has moved


def test_updates_that_are_left(make_trainer: Callable[..., Trainer]) -> None:
    trainer = make_trainer(updates_per_step=0.5)
    seen: list[Any] = []
    trainer.train(60, [seen.append])
    assert [p.updates_left for p in seen if p.step in (30, 40, 60)] == [15, 10, 0]
    assert seen[-1].updates == seen[39].updates + 10
