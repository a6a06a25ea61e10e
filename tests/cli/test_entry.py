"""The command itself: help, version, mistakes, and output that is piped."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command import COMMAND
from terminal import refused

import resel
from resel.cli import main
from resel.cli._entry import VERBS


def test_help_and_version(capsys: Any) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"resel {resel.__version__}\n"
    for argv in ([], ["--help"], ["-h"]):
        assert main(argv) == 0
        text = capsys.readouterr().out
        assert all(f" {verb} " in text for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_every_verb(verb: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as left:
        main([verb, "--help"])
    assert left.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: resel {verb} ")
    positional = {
        "train": "TASK",
        "report": "DIR",
        "tasks": "",
        "methods": "",
        "doctor": "",
        "bench": "scan",
        "reproduce": "NAME",
        "compare": "TASK",
        "tune": "TASK",
        "zoo": "list",
    }.get(verb, "RUN")
    assert positional in text.splitlines()[0]
    # tyro does not wrap the line of the usage
    assert max(map(len, text.splitlines()[1:])) <= 80


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["train", "TMaze"], "Did you mean TMaze-v0"),
        (["train", "Pendulum-V"], "Pendulum-V-v0"),
        (["train", "nosuchmodule:Thing-v0"], "importing 'nosuchmodule', which failed"),
        (["train", "TMaze-v0", "--preset", "mine"], "choose from paper"),
        (["train", "TMaze-v0", "--n-critics", "1"], "lower subset_size or raise n_critics"),
        (["train", "TMaze-v0", "--device", "tpu"], "'auto', 'cpu', 'cuda'"),
        (
            ["eval", "nowhere"],
            "no saved agent at nowhere. Check the path: it must be the folder of one or a run",
        ),
        (["eval", "."], "Give the folder in which manifest.json lies or a run directory"),
        (
            ["watch", "nowhere", "--out", "a.gif"],
            "no saved agent at nowhere. Check the path: it must be the folder of one or a run",
        ),
        (["resume", "nowhere"], "Check the path: a run is the folder that `resel train` names"),
        (["resume", __file__], "test_entry.py is a file, but a run is a folder"),
        (["plot", "nowhere"], "Check the path: a run is the folder that `resel train` names"),
        (["plot"], "at least one run"),
        (["plot", "nowhere", "--out", "a.txt"], ".png, .svg or .pdf"),
        (["tasks", "--show", "TMaze"], "Did you mean TMaze-v0"),
        (["tasks", "--show", "Zzzzzz"], "`resel tasks` lists ours"),
        (["reproduce", "fig-lr-ablation", "--jobs=-1"], "--jobs -1 is too small: it must be at"),
        (["reproduce", "fig-pomdp", "--methods", "resel,nobody"], "does not run 'nobody'"),
        (["reproduce", "table-timing", "--methods", "resel"], "it trains nothing"),
        (["compare", "TMaze-v0", "--methods", "resel,"], "names with commas between them"),
        (["compare", "TMaze-v0", "--methods", "sac,nobody"], "nobody"),
        (["compare", "TMaze-v0", "--seeds", "0"], "--seeds 0 is too small"),
        (["compare", "TMaze-v0", "--methods", "td3"], "td3"),
        (["compare", "TMaze-v0", "--settings", "gama=0.9"], "has a setting 'gama'"),
        (["compare", "TMaze-v0", "--steps", "300"], "300 steps would learn nothing"),
        (["compare", "Nowhere-v0"], "Nowhere-v0"),
        (["tran"], "use one of train, resume, eval, watch, zoo, plot, report, "),
    ],
)
def test_mistakes(argv: list[str], told: str, capsys: Any, tmp_path: Path) -> None:
    assert told in refused(capsys, *argv)
    assert list(tmp_path.iterdir()) == []


def test_piped_lines_are_not_broken(finished: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    told = subprocess.run(
        [COMMAND, "resume", str(finished)], capture_output=True, text=True, env=environment
    )
    assert told.returncode == 0, told.stderr
    (line,) = told.stdout.splitlines()
    # Evaluated at 0, 20, 40 and 60, of which the first does not count.
    assert line.endswith("(mean of the last 2 evaluations)") and len(line) > 80
    listed = subprocess.run([COMMAND, "tasks"], capture_output=True, text=True, env=environment)
    assert sum(row.startswith("TMaze-v0 ") for row in listed.stdout.splitlines()) == 1
    assert max(map(len, listed.stdout.splitlines())) > 80
    known = subprocess.run([COMMAND, "methods"], capture_output=True, text=True, env=environment)
    for row in [*listed.stdout.splitlines(), *known.stdout.splitlines()]:
        assert row == row.rstrip()


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_nobody_reads(unbuffered: str) -> None:
    process = subprocess.Popen(
        [COMMAND, "tasks", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()  # long before it has something to say
    with process.stderr as told:
        assert told.read() == b""
    assert process.wait(timeout=60) == 0


def test_help_imports_no_verb() -> None:
    program = (
        "import sys; from resel.cli import main; main(['--help']); main(['--version'])\n"
        "print(*(name for name in sys.modules))"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    loaded = set(told.stdout.splitlines()[-1].split())
    assert told.returncode == 0 and "resel.cli.console" in loaded
    unneeded = {f"resel.cli.{verb}" for verb in VERBS}
    unneeded |= {"resel.experiments", "resel.reports", "resel.benchmarks", "resel.analysis"}
    assert not unneeded & loaded and "matplotlib" not in loaded


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_file(verb: str) -> None:
    assert callable(importlib.import_module(f"resel.cli.{verb}").run)


@pytest.mark.parametrize(
    ("given", "found"),
    [({}, "20000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
)
def test_threads_that_wait_do_not_spin_for_long(given: dict[str, str], found: str) -> None:
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    kept = {name: value for name, value in os.environ.items() if name not in names}
    code = (
        "import os, sys; from resel.cli import main; assert 'torch' not in sys.modules; "
        "main(['tasks', '--json']); print(os.environ.get('GOMP_SPINCOUNT'))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], env={**kept, **given}, capture_output=True, text=True
    )
    assert told.stdout.splitlines()[-1] == found, told.stderr
