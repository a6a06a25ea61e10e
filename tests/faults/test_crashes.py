"""Runs that are killed, and disks that are full or were tampered with."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from command import start

from resel.cli import main
from resel.runs import read_bundle, read_metrics

STEPS = "120"


pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture(scope="module")
def command(tiny_flags: list[str]) -> list[str]:
    often = ["--checkpoint-every", "20", "--eval-every", "30", "--threads", "1", "--num-envs", "2"]
    return ["train", "TMaze-v0", *tiny_flags, *often, "--resume", "auto", "--run-dir"]


@pytest.fixture(scope="module")
def whole(command: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "whole"
    threads = torch.get_num_threads()
    assert main([*command, str(path), "--steps", STEPS]) == 0
    torch.set_num_threads(threads)
    return path


def _lines(run: Path) -> list[dict[str, Any]]:
    return [ln for ln in read_metrics(run / "metrics.jsonl") if ln["kind"] != "timing"]


def _check_same(run: Path, whole: Path) -> None:
    assert _lines(run) == _lines(whole)
    one, other = (read_bundle(p / "agents/last", "agent").tensors["weights"] for p in (run, whole))
    assert all(torch.equal(one[name], other[name]) for name in one)
    found, wanted = (json.loads((p / "result.json").read_text()) for p in (run, whole))
    clocks = {"wall_seconds": 0, "cpu_seconds": 0}
    assert found | clocks == wanted | clocks


def test_killed_by_force(command: list[str], whole: Path, tmp_path: Path) -> None:
    process = start(*command, "run", "--steps", "1e6")
    checkpoints = tmp_path / "run/checkpoints"
    deadline = time.monotonic() + 120
    complete = "step-" + "[0-9]" * 9 + "/manifest.json"
    while not list(checkpoints.glob(complete)):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.communicate()
    reached = max(int(path.parent.name[5:]) for path in checkpoints.glob(complete))
    assert reached < int(STEPS), "killed too late to show anything"
    assert not (tmp_path / "run/result.json").exists()
    assert main([*command, "run", "--steps", STEPS]) == 0
    _check_same(tmp_path / "run", whole)


@pytest.mark.filterwarnings("default")
def test_a_full_disk(
    command: list[str], whole: Path, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    writes = 0
    write = os.write

    def full(*args: Any) -> int:
        nonlocal writes
        writes += 1
        if writes > 60:
            raise OSError(28, "No space left on device")
        return write(*args)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        tries = ["--disk-tries", "3", "--disk-wait", "0.01"]
        assert main([*command, "run", "--steps", STEPS, *tries]) == 4
    told = capsys.readouterr().err
    assert "No space left on device" in told and "Traceback" not in told
    assert "try 2 of 3 follows in 0.01 s" in told and "try 3 of 3 follows in 0.02 s" in told
    run = tmp_path / "run"
    assert not (run / "result.json").exists()  # there was no room for it either
    for path in [*(run / "checkpoints").iterdir()]:
        read_bundle(path, "checkpoint")
    read_bundle(run / "agents/last", "agent")
    assert main([*command, "run", "--steps", STEPS]) == 0
    _check_same(run, whole)


@pytest.mark.filterwarnings("default")
def test_a_damaged_checkpoint_is_told_in_one_line(
    command: list[str], whole: Path, tmp_path: Path, capsys: Any
) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    (run / "result.json").unlink()  # or it would count as finished
    newest = max((run / "checkpoints").iterdir())
    (newest / "weights.safetensors").write_bytes(b"nothing")
    assert main([*command, "run", "--steps", STEPS]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "Warning" in line]
    assert len(told) == 1 and "Trying the one before." in told[0]
    assert ".py:" not in told[0]  # no source code around it
    _check_same(run, whole)


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl"])
def test_files_that_were_tampered_with(
    command: list[str], whole: Path, tmp_path: Path, capsys: Any, name: str
) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    (run / "result.json").unlink()
    (run / name).write_text('{"half\n{"another')
    before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file() and "tensor" not in str(p)}
    assert main([*command, "run", "--steps", STEPS]) == 2
    told = capsys.readouterr().err
    assert name in told and "Traceback" not in told
    kept = ("agents", "checkpoints", "replay")
    assert all(
        p.read_bytes() == data for p, data in before.items() if any(k in str(p) for k in kept)
    )


def test_metrics_cut_off_in_the_middle_of_a_line(
    command: list[str], whole: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert main([*command, "run", "--steps", "60"]) == 0
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 61, "kind": "tra')
    assert main([*command, "run", "--steps", STEPS]) == 0
    _check_same(run, whole)
