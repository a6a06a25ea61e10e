"""`resel bench solve`: which runs it starts, what it counts, and RecurrentPPO beside them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from fake_runs import write_run

from resel.benchmarks import solve
from resel.cli import main


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of the runs, which end at once: seed 2 unsolved."""
    commands: list[list[str]] = []

    def call(words: list[str]) -> str:
        commands.append(words)
        seed = int(words[words.index("--seed") + 1])
        wanted = float(words[words.index("--stop-return") + 1])
        write_run(
            Path(words[words.index("--run-dir") + 1]),
            [
                {"step": step, "kind": "eval", "return_mean": mean}
                for step, mean in ((0, -900.0), (1000 * seed, wanted - seed))
            ],
            steps=1000 * seed,
            held_return=None if seed == 2 else wanted,
            wall_seconds=60.0 * seed,
            cpu_seconds=30.0 * seed,
        )
        return ""

    monkeypatch.setattr(solve, "_call", call)
    return commands


def test_counts(started: list[list[str]], tmp_path: Path, capsys: Any) -> None:
    words = ["--tasks", "Pendulum-V-v0", "--out", str(tmp_path / "out")]
    assert main(["bench", "solve", *words]) == 0
    said = " ".join(capsys.readouterr().out.split())
    # A median with an unsolved attempt in it is a floor.
    assert "Pendulum-V-v0, resel -200 2 of 3 > 2,000 > 2 > 1 -202" in said
    assert [words[3:5] for words in started] == [["train", "Pendulum-V-v0"]] * 3
    with (tmp_path / "out" / "solve.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["seed"], row["solved"], row["steps"]) for row in rows] == [
        ("1", "True", "1000"),
        ("2", "False", "2000"),
        ("3", "True", "3000"),
    ]


def test_settings_reach_the_runs(started: list[list[str]], capsys: Any) -> None:
    flags = ["--methods", "sac-gru", "td3-mlp", "--encoder", "lstm", "--steps", "500"]
    words = ["--tasks", "toy/Box-v0", *flags, "--threshold", "7", "--repetitions", "1"]
    assert main(["bench", "solve", *words, "--first-seed", "4", "--json"]) == 0
    first, second = started
    assert "--encoder" in first and "--encoder" not in second  # td3-mlp has none
    for command, method in ((first, "sac-gru"), (second, "td3-mlp")):
        given = dict(zip(command[5::2], command[6::2], strict=True))
        assert given["--method"] == method and given["--seed"] == "4"
        assert given["--steps"] == "500" and given["--stop-return"] == "7.0"
        assert given["--resume"] == "auto"
    attempts = json.loads(capsys.readouterr().out)["attempts"]
    assert [attempt["processor_minutes"] for attempt in attempts] == [2.0, 2.0]


def test_steps_against_minutes(
    started: list[list[str]], capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    words = ["--tasks", "Pendulum-V-v0", "--repetitions", "1", "--updates-per-step", "0.5", "2"]
    assert main(["bench", "solve", *words]) == 0
    paces = [command[command.index("--updates-per-step") + 1] for command in started]
    assert paces == ["0.5", "2.0"]
    folders = {command[command.index("--run-dir") + 1] for command in started}
    assert len(folders) == 2
    said = " ".join(capsys.readouterr().out.split())
    assert "Pendulum-V-v0, resel (0.5) -200 1 of 1 1,000" in said
    assert "Pendulum-V-v0, resel (2) -200 1 of 1 1,000" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tasks", "AntBLT-P-v0"], "which return solves 'AntBLT-P-v0': name it with --threshold"),
        (["--tasks", "toy/Box-v0"], "which return solves 'toy/Box-v0'"),
        (["--methods", "sacc"], "sacc"),
    ],
)
def test_refused(words: list[str], said: str, started: list[list[str]], capsys: Any) -> None:
    assert main(["bench", "solve", *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not started


def test_a_failing_run_is_told(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "Pendulum-V-v0-resel-1").write_text("in the way")
    words = ["--tasks", "Pendulum-V-v0", "--repetitions", "1", "--runs", str(tmp_path)]
    assert main(["bench", "solve", *words]) != 0
    assert "Pendulum-V-v0-resel-1" in " ".join(capsys.readouterr().err.split())


def test_recurrent_ppo(tmp_path: Path, capsys: Any) -> None:
    words = ["--tasks", "TMaze-v0", "--methods", "recurrent-ppo", "--repetitions", "1"]
    words += ["--steps", "256", "--runs", str(tmp_path), "--threshold", "2", "--json"]
    assert main(["bench", "solve", *words]) == 0
    first = json.loads(capsys.readouterr().out)["attempts"]
    assert first[0]["steps"] >= 256 and not first[0]["solved"]
    assert first[0]["processor_minutes"] > 0
    assert main(["bench", "solve", *words]) == 0  # what is there is not run again
    assert json.loads(capsys.readouterr().out)["attempts"] == first
