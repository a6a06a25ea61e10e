"""Methods that adapt to a task, as the command trains, measures and reports them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from html_reader import read_report
from terminal import SMALL, lines, read, refused

from resel.cli import main

TASK = "Pendulum-gravity-v0"
TINY = ["--preset", "small", "--size", "tiny", "--max-episode-steps", "10", "--eval-episodes", "3"]
PEARL = ["--method", "pearl", "--learn-after", "20", "--batch-tasks", "2"]
PROMP = ["--method", "promp", "--num-envs", "2", "--phase-steps", "15"]


@pytest.mark.parametrize(("method", "steps"), [(PEARL, 2 * 10), (PROMP, 15)])
def test_steps_of_adapting_are_told_and_are_no_steps_of_training(
    method: list[str], steps: int, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    assert main(["train", TASK, *TINY, *method, *SMALL, "--run-dir", str(run)]) == 0
    evaluations = [line for line in lines(run) if line["kind"] == "eval"]
    assert [line["step"] for line in evaluations] == [0, 20, 40, 60]
    assert {line["adaptation_steps"] for line in evaluations} == {3 * steps}
    assert {line["length_mean"] for line in evaluations} == {10}
    assert read(run / "result.json")["steps"] == 60
    capsys.readouterr()
    assert main(["eval", str(run), "--episodes", "3", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["adaptation_steps"] == 3 * steps
    assert answer["return_mean"] == pytest.approx(evaluations[-1]["return_mean"])
    assert main(["eval", str(run), "--episodes", "3"]) == 0
    assert f"Adapted to each task first, in {3 * steps} steps in all" in capsys.readouterr().out
    monkeypatch.setattr("resel.reports.page.plotly_source", lambda: "/* plotly */")
    text = read_report(run, tmp_path).text
    assert "steps of adapting in the last evaluation" in text


@pytest.mark.parametrize(
    ("task", "flags", "said"),
    [
        ("Pendulum-V-v0", PEARL, "pearl learns from info['task'] of a reset"),
        ("Pendulum-V-v0", PROMP, "take a task that does, such as Pendulum-gravity-v0"),
        (TASK, ["--method", "promp", "--num-envs", "1"], "num_envs=1: promp learns from several"),
        (TASK, [*PROMP, "--buffer-steps", "100"], "buffer_steps=100 is too small"),
        (TASK, [*PEARL, "--inner-step", "1"], "it belongs to the method promp"),
        ("TMaze-v0", PEARL, "The method pearl acts in Box spaces only"),
    ],
)
def test_refused_before_anything_is_written(
    task: str, flags: list[str], said: str, tmp_path: Path, capsys: Any
) -> None:
    run = tmp_path / "run"
    assert said in refused(capsys, "train", task, *TINY, *flags, "--run-dir", str(run))
    assert not run.exists()


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("Pendulum-v1", "which this environment does not tell"),
        (TASK, "raise it, or steps (--steps), from which the preset auto takes it, to 4,000"),
    ],
)
def test_what_the_steps_leave_too_small_is_told_where_they_are_what_stands_against_it(
    task: str, said: str, tmp_path: Path, capsys: Any
) -> None:
    words = ["--method", "promp", "--preset", "auto", "--steps", "3000"]
    told = refused(capsys, "train", task, *words, "--run-dir", str(tmp_path / "run"))
    assert said in told and not (tmp_path / "run").exists()
    assert ("buffer_steps=3,000" in told) == (task == TASK)
