"""`resel bench solve`: which runs it starts, what it counts, and RecurrentPPO beside them."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fake_runs import write_run

from resel.benchmarks import _attempts
from resel.benchmarks._calls import Done
from resel.cli import main


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of the runs, which end at once: seed 2 unsolved."""
    commands: list[list[str]] = []

    def call(words: list[str]) -> Done:
        commands.append(words)
        seed = int(words[words.index("--seed") + 1])
        wanted = float(words[words.index("--stop-return") + 1])
        write_run(
            Path(words[words.index("--run-dir") + 1]),
            [
                {"step": step, "kind": "eval", "return_mean": mean}
                for step, mean in ((0, -900.0), (500 * seed, wanted + 1), (1000 * seed, wanted - 2))
            ],
            steps=1000 * seed,
            held_return=None if seed == 2 else wanted,
            wall_seconds=60.0 * seed,
            cpu_seconds=30.0 * seed,
        )
        return Done(0, "", "", 0.0, 0.0)

    monkeypatch.setattr(_attempts, "call", call)
    return commands


def test_counts(started: list[list[str]], tmp_path: Path, capsys: Any) -> None:
    words = ["--tasks", "Pendulum-V-v0", "--out", str(tmp_path / "out")]
    assert main(["bench", "solve", *words]) == 0
    told = capsys.readouterr()
    said = " ".join(told.out.split())
    # A median with an unsolved attempt in it is a floor.
    assert "Pendulum-V-v0, resel -200 2 of 3 > 2,000 > 2 > 1 -199 -202" in said
    assert [words[3:5] for words in started] == [["train", "Pendulum-V-v0"]] * 3
    # Each attempt is told as soon as it ends.
    first, second, _ = [line for line in told.err.splitlines() if line.startswith("[")]
    assert first == (
        "[1 of 3] Pendulum-V-v0, resel, seed 1: solved after 1,000 steps and 1.0 minutes; "
        "last return -202, best -199, threshold -200"
    )
    assert "[2 of 3] Pendulum-V-v0, resel, seed 2: not solved within 2,000 steps" in second
    with (tmp_path / "out" / "solve.csv").open() as file:
        rows = list(csv.DictReader(file))
    names = ("seed", "solved", "steps", "ended", "best_return", "last_return")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("1", "True", "1000", "solved", "-199.0", "-202.0"),
        ("2", "False", "2000", "limit", "-199.0", "-202.0"),
        ("3", "True", "3000", "solved", "-199.0", "-202.0"),
    ]


def test_a_run_that_diverges_or_fails_counts_as_unsolved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    def call(words: list[str]) -> Done:
        seed, run = int(words[words.index("--seed") + 1]), Path(words[words.index("--run-dir") + 1])
        lines = [
            {"step": step, "kind": "eval", "return_mean": mean}
            for step, mean in ((0, -900.0), (1000, -300.0), (2000, float("nan")))
        ]
        took = {"steps": 2500, "wall_seconds": 120.0, "cpu_seconds": 60.0}
        if seed == 1:
            write_run(run, lines, "diverged", **took, held_return=None, fault="Q is NaN.")  # type: ignore[arg-type]
            return Done(3, "", "Error: Q is NaN.", 120.0, 60.0)
        if seed == 2:  # it was killed, and its directory has no result
            write_run(run, lines, status=None)
            return Done(-9, "", "killed by signal 9", 90.0, 30.0)
        if seed == 3:
            return Done(2, "", "Error: no.", 6.0, 3.0)
        write_run(run, lines, **took, held_return=-200.0)  # type: ignore[arg-type]
        return Done(0, "", "", 120.0, 60.0)

    monkeypatch.setattr(_attempts, "call", call)
    words = ["--tasks", "Pendulum-V-v0", "--repetitions", "4", "--out", str(tmp_path)]
    assert main(["bench", "solve", *words]) == 0
    told = capsys.readouterr()
    assert "1 of 4, 1 diverged, 2 failed > 2,250" in " ".join(told.out.split())
    assert "seed 1: diverged after 2,500 steps and 2.0 minutes; last return not finite" in told.err
    assert "best -300, threshold -200 (Q is NaN.)" in told.err
    found = json.loads((tmp_path / "solve.json").read_text())["attempts"]
    names = ("ended", "solved", "steps", "minutes", "best_return", "last_return", "fault")
    assert [tuple(attempt[name] for name in names) for attempt in found] == [
        ("diverged", False, 2500, 2.0, -300.0, None, "Q is NaN."),
        ("failed", False, 2000, 1.5, -300.0, None, "killed by signal 9"),
        ("failed", False, 0, 0.1, None, None, "Error: no."),
        ("solved", True, 2500, 2.0, -300.0, None, None),
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
    assert "Pendulum-V-v0, resel (0.5 updates a step) -200 1 of 1 1,000" in said
    assert "Pendulum-V-v0, resel (2 updates a step) -200 1 of 1 1,000" in said


@pytest.mark.parametrize(
    ("given", "ways"),
    [
        (["--eval-parallel"], [["--eval-parallel"]] * 2),  # as `resel train` has it
        (["--eval-parallel", "True", "False"], [["--eval-parallel"], ["--no-eval-parallel"]] * 2),
        ([], [[]] * 2),
    ],
)
def test_more_cores(given: list[str], ways: list[list[str]], started: list[list[str]]) -> None:
    words = ["--tasks", "Pendulum-V-v0", "--repetitions", "1", "--num-envs", "1", "4"]
    assert main(["bench", "solve", *words, *given]) == 0
    known = ("--eval-parallel", "--no-eval-parallel")
    assert [[word for word in command if word in known] for command in started] == ways
    envs = [command[command.index("--num-envs") + 1] for command in started]
    assert envs == sorted(envs) and set(envs) == {"1", "4"}  # each with every way
    assert len({command[command.index("--run-dir") + 1] for command in started}) == len(ways)


@pytest.mark.parametrize(
    ("task", "threshold"),
    [
        ("Pendulum-gravity-v0", -250.0),
        ("MiniGrid-MemoryS17Random-v0", 0.93),
        ("AntBLT-P-v0", 0.9 * 2829),  # the paper's own number, not that of the released code
        ("Humanoid-gravity-v0", 0.9 * 6360),
        ("resel/HalfCheetah-v2", 0.9 * 16750),  # after 5M steps, not after fewer
    ],
)
def test_thresholds(task: str, threshold: float, started: list[list[str]]) -> None:
    assert main(["bench", "solve", "--tasks", task, "--repetitions", "1"]) == 0
    (command,) = started
    given = float(command[command.index("--stop-return") + 1])
    assert given == pytest.approx(threshold)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tasks", "AntDir-v0"], "which return solves 'AntDir-v0': name it with --threshold"),
        (["--tasks", "toy/Box-v0"], "which return solves 'toy/Box-v0'"),
        (["--tasks", "CartPole-P-v0", "Nope-v0"], "no task or Gymnasium environment 'Nope-v0'"),
        (["--tasks", "Pendulum-W-v0", "--threshold", "1"], "Did you mean Pendulum-V-v0"),
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


def test_a_kept_run_of_a_lower_threshold_is_not_solved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    """It held its own at its last step, and has no more steps to take."""
    write_run(tmp_path / "Pendulum-V-v0-resel-1", [], held_return=-200.0, wall_seconds=1.0)
    monkeypatch.setattr(_attempts, "call", lambda words: Done(0, "", "", 0.0, 0.0))
    words = ["--tasks", "Pendulum-V-v0", "--repetitions", "1", "--runs", str(tmp_path), "--json"]
    for threshold, solved in (("-150", False), ("-200", True), ("-250", True)):
        assert main(["bench", "solve", *words, f"--threshold={threshold}"]) == 0
        (attempt,) = json.loads(capsys.readouterr().out)["attempts"]
        assert attempt["solved"] is solved


@pytest.mark.parametrize("task", ["TMaze-v0", "CartPole-P-v0"])
def test_recurrent_ppo(
    task: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))  # of the process that trains
    words = ["--tasks", task, "--methods", "recurrent-ppo", "--repetitions", "1"]
    words += ["--steps", "256", "--runs", str(tmp_path), "--threshold", "501", "--json"]
    assert main(["bench", "solve", *words]) == 0
    first = json.loads(capsys.readouterr().out)["attempts"]
    assert first[0]["steps"] >= 256 and not first[0]["solved"]
    assert first[0]["processor_minutes"] > 0
    assert not list(temporary.glob("SB3*"))
    assert main(["bench", "solve", *words]) == 0  # what is there is not run again
    assert json.loads(capsys.readouterr().out)["attempts"] == first


def test_recurrent_ppo_is_run_again_where_something_else_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[list[str]] = []
    found = {"solved": True, "steps": 9, "minutes": 1.0, "processor_minutes": 1.0}
    found |= {"last_return": 1.0, "best_return": 1.0}

    def call(words: list[str]) -> Done:
        made.append(words[words.index("TMaze-v0") :])
        return Done(0, f"a warning\n{json.dumps(found)}\n", "", 0.0, 0.0)

    monkeypatch.setattr(_attempts, "call", call)

    def times(*words: str) -> int:
        """How often it was run by then."""
        fixed = ["--tasks", "TMaze-v0", "--methods", "recurrent-ppo", "--repetitions", "1"]
        assert main(["bench", "solve", *fixed, "--runs", str(tmp_path), *words]) == 0
        return len(made)

    assert [times(), times()] == [1, 1]
    assert [times("--threshold", "2"), times("--threshold", "2")] == [2, 2]
    fewer = ("--threshold", "2", "--steps", "500")
    assert [times(*fewer), times(*fewer)] == [3, 3]
    assert times(*fewer, "--threads", "2") == 4
    assert [words[2:4] for words in made[1:3]] == [["2.0", made[0][3]], ["2.0", "500"]]
    kept = tmp_path / "TMaze-v0-recurrent-ppo-1" / "attempt.json"
    kept.write_text(json.dumps(found))  # as older versions wrote it
    assert [times(), times()] == [5, 5]
    kept.write_text(kept.read_text()[:20])  # written while the disk was full
    assert [times(), times()] == [6, 6]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_run_too(number: int, code: int, tmp_path: Path) -> None:
    """The command in a process of its own, whose run is one that would take an hour."""
    run = "import os, time; open('run', 'w').write(str(os.getpid())); time.sleep(3600)"
    script = (
        "import sys\nfrom resel.benchmarks import _attempts\nfrom resel.cli import main\n"
        f"_attempts.LAUNCHER = (sys.executable, '-S', '-c', {run!r})\n"
        "sys.exit(main(['bench', 'solve', '--tasks', 'TMaze-v0']))"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"}
    command = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until = time.monotonic() + 120
        while not (tmp_path / "run").exists() or not (tmp_path / "run").read_text():
            assert command.poll() is None and time.monotonic() < until
            time.sleep(0.02)
        assert [path.name[:12] for path in temporary.iterdir()] == ["resel-solve-"]
        command.send_signal(number)
        out, err = command.communicate(timeout=60)
    finally:
        command.kill()
        command.communicate()
    assert command.returncode == code and "Traceback" not in err
    assert out == "Stopped; nothing of it is kept.\n"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "run").read_text()), 0)
    assert not list(temporary.iterdir())
