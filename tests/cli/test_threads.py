"""The threads of a run: chosen by the network, written down, and kept when it goes on."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from terminal import SMALL, pretend_machine, read, refused

from resel import RESeL
from resel.cli import main
from resel.runs import threads_so_far
from resel.training import threads


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def begun(finished: Path, tmp_path: Path) -> Path:
    """A run that had two threads, where one would be chosen; it is to take a few steps more."""
    path = Path(shutil.copytree(finished, tmp_path / "run"))
    pretend_machine(path, threads=2)
    torch.set_num_threads(1)
    return path


def test_the_number_that_was_chosen_is_written_down(tiny_flags: list[str], tmp_path: Path) -> None:
    torch.set_num_threads(2)
    flags = [*tiny_flags, *SMALL, "--threads", "0", "--run-dir", "run"]
    assert main(["train", "TMaze-v0", *flags]) == 0
    assert read(tmp_path / "run/config.json")["training"]["threads"] == 0
    assert read(tmp_path / "run/environment.json")["threads"] == threads_so_far("run") == 1


def test_a_run_goes_on_with_the_threads_it_had(
    begun: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    assert threads_so_far(begun) == 2
    more = ["resume", "run", "--steps", "62", "--eval-every", "0"]
    assert "threads: 2 then, 1 now" in refused(capsys, *more, "--threads", "1")
    monkeypatch.setattr("resel.cli._introduction.usable_cores", lambda: 1)
    assert main([*more, "--threads", "0"]) == 0
    told = capsys.readouterr()
    assert "(threads: 2)" in told.out
    assert "goes on with its 2 threads, more than the cores here (1)" in told.err
    assert read(begun / "result.json")["exact"] is True
    assert read(begun / "environment.json")["threads"] == threads_so_far(begun) == 2


def test_the_library_goes_on_with_them_too(begun: Path, tiny: dict[str, Any]) -> None:
    seen: list[int] = []
    agent = RESeL("TMaze-v0", **tiny)
    agent.learn(
        62, run_dir="run", resume="auto", callback=lambda _: seen.append(torch.get_num_threads())
    )
    assert set(seen) == {2} and torch.get_num_threads() == 1


def test_what_cannot_be_read_has_none(begun: Path, tmp_path: Path) -> None:
    assert threads_so_far(tmp_path) is None
    older, newer = sorted((begun / "checkpoints").iterdir())[-2:]
    (newer / "run.json").write_text("{}")
    assert threads_so_far(begun) == 1  # of the one before
    (older / "run.json").unlink()
    assert threads_so_far(begun) is None


@pytest.mark.parametrize(
    ("load", "given", "told"),
    [
        (50.0, {}, True),
        (0.5, {}, False),
        (50.0, {"threads": 1}, False),
        (50.0, {"width": 8}, False),
    ],
)
def test_threads_that_spin_on_a_busy_machine_are_told(
    load: float,
    given: dict[str, Any],
    told: bool,
    tiny: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads.os, "getloadavg", lambda: (load, load, load))
    torch.set_num_threads(2)
    settings = {**tiny, "width": threads.PAPER_WIDTH, **given}
    agent = RESeL("TMaze-v0", preset="paper", **settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agent.learn(1)
    spinning = [str(w.message) for w in caught if "by spinning" in str(w.message)]
    assert bool(spinning) is told
    if told:
        assert "its load is 50.0" in spinning[0] and "threads=1" in spinning[0]
        monkeypatch.setenv("GOMP_SPINCOUNT", "20000")
        assert threads.why_threads_spin() is None
