"""Runs that go on: after a signal, after an end, from before the first checkpoint."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from command import start
from terminal import SMALL, lines, read, same_run

from resel.cli import main
from resel.runs import read_bundle, read_metrics
from resel.training import ProgressLine, TrainProgress


def test_resume_auto_starts_and_goes_on(
    finished: Path, tiny_flags: list[str], capsys: Any, tmp_path: Path
) -> None:
    command = ["train", "TMaze-v0", *tiny_flags, *SMALL, "--run-dir", "run", "--resume", "auto"]
    assert main([*command, "--steps", "35"]) == 0
    capsys.readouterr()
    assert main(command) == 0
    assert "Going on from step 35." in capsys.readouterr().out
    parts, whole = lines(tmp_path / "run"), lines(finished)
    # The first run ended with an evaluation of its own.
    assert [ln for ln in parts if (ln["kind"], ln["step"]) != ("eval", 35)] == whole
    one, other = (
        read_bundle(p / "agents/last", "agent").tensors["weights"]
        for p in (finished, tmp_path / "run")
    )
    assert all(torch.equal(one[name], other[name]) for name in one)


def _wait_for_step(process: subprocess.Popen[str], run: Path, step: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if (run / "metrics.jsonl").exists() and any(
            line["step"] >= step for line in read_metrics(run / "metrics.jsonl")
        ):
            return
        time.sleep(0.02)
    pytest.fail(f"never came to step {step}: {process.communicate(timeout=10)}")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_tells_how_to_go_on(
    tiny_flags: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Any, number: int, code: int
) -> None:
    class Signalling(ProgressLine):
        def __call__(self, progress: TrainProgress) -> None:
            super().__call__(progress)
            if progress.step == 43:
                signal.raise_signal(number)

    flags = ["train", "TMaze-v0", *tiny_flags, "--steps", "60", "--threads", "1", "--run-dir"]
    with monkeypatch.context() as patch:
        patch.setattr("resel.cli._training.ProgressLine", Signalling)
        assert main([*flags, "a run"]) == code
    out = capsys.readouterr().out
    assert "Interrupted: 43 steps" in out
    assert out.endswith("Stopped at step 43. Go on with: resel resume 'a run'\n")
    assert main(["resume", "a run"]) == 0
    assert main([*flags, "whole"]) == 0
    assert same_run(Path("a run"), Path("whole"))


@pytest.mark.slow
def test_signals_stop_the_run_and_it_goes_on(tiny_flags: list[str], tmp_path: Path) -> None:
    run = tmp_path / "a run"  # with a space, as people have
    flags = [*tiny_flags, "--eval-every", "1000", "--threads", "1", "--run-dir", str(run)]
    flags += ["--checkpoint-every", "1000"]
    process = start("train", "TMaze-v0", *flags, "--steps", "1e6")
    _wait_for_step(process, run, 40)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err and "Interrupted:" in out
    first = read(run / "result.json")
    assert first["status"] == "interrupted" and first["steps"] >= 40
    found = re.search(r"Go on with: (resel resume .*)", out)
    assert found

    process = start(*shlex.split(found[1])[1:])  # as printed
    _wait_for_step(process, run, first["steps"] + 20)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert f"Going on from step {first['steps']:,}." in out
    second = read(run / "result.json")
    assert second["status"] == "interrupted" and second["steps"] >= first["steps"] + 20

    commands = [entry["command"] for entry in read(run / "environment.json")["starts"]]
    assert commands == [
        shlex.join(["resel", "train", "TMaze-v0", *flags, "--steps", "1e6"]),
        found[1],
    ]

    steps = ["--steps", str(second["steps"] + 15)]
    assert main(["train", "TMaze-v0", *flags, *steps, "--resume", "auto"]) == 0
    assert read(run / "result.json")["status"] == "completed"
    flags[flags.index(str(run))] = "whole"
    assert main(["train", "TMaze-v0", *flags, *steps]) == 0
    assert same_run(run, tmp_path / "whole")


def test_a_run_that_is_too_young_says_so(
    tmp_path: Path, tiny_flags: list[str], capsys: Any
) -> None:
    """Stopped before its first checkpoint: no agent, and resuming begins again."""
    flags = [*tiny_flags, "--steps", "60", "--threads", "1", "--run-dir", "young"]
    assert main(["train", "TMaze-v0", *flags]) == 0
    shutil.rmtree("young/agents")
    shutil.rmtree("young/checkpoints")
    Path("young/result.json").unlink()
    assert main(["eval", "young"]) == 2
    assert "has no agent yet: wait for its first evaluation or checkpoint" in _flat(capsys)
    assert main(["resume", "young"]) == 0
    told = _flat(capsys)
    assert "begins again at step 0" in told and "young/earlier" in told
    assert lines(Path("young/earlier")) == lines(Path("young"))
    assert main(["eval", "young", "--episodes", "1"]) == 0


def test_the_record_of_a_run_does_not_begin_again(
    tmp_path: Path, tiny_flags: list[str], capsys: Any
) -> None:
    """What is kept of a finished run without its checkpoints, as beside pages of results."""
    flags = [*tiny_flags, "--steps", "60", "--threads", "1", "--run-dir", "kept"]
    assert main(["train", "TMaze-v0", *flags]) == 0
    shutil.rmtree("kept/checkpoints")
    before = {path: path.read_bytes() for path in Path("kept").rglob("*") if path.is_file()}
    assert main(["resume", "kept", "--steps", "90"]) == 2
    assert "has ended, and its checkpoints are not there" in _flat(capsys)
    assert before == {p: p.read_bytes() for p in Path("kept").rglob("*") if p.is_file()}


def _flat(capsys: Any) -> str:
    captured = capsys.readouterr()
    return " ".join((captured.out + captured.err).split())
