"""Run directories: one run each, one writer each, nothing half written."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from resel.errors import (
    BadInputError,
    DamagedFileError,
    RunDirectoryError,
    RunInUseError,
    StorageError,
)
from resel.runs import RunDirectory, default_run_path, describe_machine, write_bundle
from resel.runs._manifest import VERSION

CONFIG = {"task": "Pendulum-V-v0", "training": {"seed": 3}}


def test_create_and_open(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "a" / "b", CONFIG) as run:
        assert run.path == tmp_path / "a" / "b"
        assert run.read_result() is None
        assert run.read_environment() is None
        run.write_result({"return": 1.5})
    with RunDirectory.open(run.path) as again:
        assert again.read_config() == CONFIG
        assert again.read_result() == {"return": 1.5}
        assert again.last_agent_path == run.path / "agents" / "last"
        assert again.best_agent_path == run.path / "agents" / "best"
        assert again.metrics_path == run.path / "metrics.jsonl"


@pytest.mark.parametrize("file", ["config.json", "metrics.jsonl"])
def test_a_run_is_not_overwritten(tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_text("old")
    with pytest.raises(RunDirectoryError, match="--resume auto") as caught:
        RunDirectory.create(tmp_path, CONFIG)
    assert "--run-dir" in str(caught.value)
    assert [(e.name, e.read_text()) for e in tmp_path.iterdir()] == [(file, "old")]


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path) -> None:
    for name in "abcd":
        (tmp_path / name).write_text("mine")
    with pytest.raises(RunDirectoryError, match=r"it holds a, b, c, \.\.\..*another --run-dir"):
        RunDirectory.create(tmp_path, CONFIG)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [*"abcd"]


@pytest.mark.parametrize("left", [".lock", ".tmp-config.json-0123abcd", "console.log"])
def test_a_start_that_was_killed_can_be_made_again(tmp_path: Path, left: str) -> None:
    (tmp_path / left).write_text("")
    with RunDirectory.create(tmp_path, CONFIG) as run:
        assert run.read_config() == CONFIG


def test_a_file_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(RunDirectoryError, match="file is in the way"):
            RunDirectory.create(path, CONFIG)
    assert (tmp_path / "file").read_text() == "mine"


def test_not_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)  # permissions do not bind root, who may run the tests
    with pytest.raises(RunDirectoryError, match=r"cannot be written to \(Permission denied\)"):
        RunDirectory.create(tmp_path / "run", CONFIG)


def test_open_needs_a_run(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(RunDirectoryError, match=r"no config\.json"):
            RunDirectory.open(path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(RunDirectoryError, match="is a file, but a run is a folder"):
        RunDirectory.open(tmp_path / "file")


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00\x00"])
def test_damaged_config(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with RunDirectory.open(tmp_path) as run, pytest.raises(DamagedFileError, match=r"config\.json"):
        run.read_config()


def test_a_config_says_in_which_format_it_was_saved(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "run", CONFIG) as run:
        for read in (run.read_config, lambda: (run.write_config(CONFIG), run.read_config())[1]):
            assert read() == CONFIG
            saved = json.loads((run.path / "config.json").read_text())
            assert saved == {"format_version": VERSION, **CONFIG}
        for version, told in {
            VERSION + 1: "Update resel",
            VERSION - 1: "older resel.*train anew",
            "5": "no valid version",
            True: "no valid version",
            None: "no valid version",
        }.items():
            (run.path / "config.json").write_text(json.dumps({**saved, "format_version": version}))
            with pytest.raises(DamagedFileError, match=told):
                run.read_config()
        (run.path / "config.json").write_text(json.dumps(CONFIG))  # as older ones were
        with pytest.raises(DamagedFileError, match=r"config\.json .* format version 4 by an older"):
            run.read_config()


def test_result_with_numbers_json_does_not_have(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "run", CONFIG) as run:
        run.write_result({"returns": [math.inf, -math.inf, 1], "best": math.nan})
        result = run.read_result()
        assert result is not None
        assert result["returns"] == [math.inf, -math.inf, 1]
        assert math.isnan(result["best"])
        with pytest.raises(BadInputError, match="object"):
            run.write_result({"bad": object()})
        assert run.read_result() is not None


def test_interrupted_write_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with RunDirectory.create(tmp_path / "run", CONFIG) as run:
        run.write_result({"n": 1})
        monkeypatch.setattr(os, "fsync", full_disk)
        with pytest.raises(StorageError, match="No space left"):
            run.write_result({"n": 2})
        assert run.read_result() == {"n": 1}
        assert sorted(e.name for e in run.path.iterdir()) == [".lock", "config.json", "result.json"]


def fill(run: RunDirectory, *steps: int) -> None:
    for step in steps:
        write_bundle(run.checkpoint_path(step), "checkpoint", {}, {"step": step})


def test_checkpoints(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "run", CONFIG) as run:
        assert run.checkpoints() == []
        run.prune_checkpoints()
        assert run.checkpoint_path(12_000).name == "step-000012000"
        steps = [12_000, 500, 1_500_000_000, 999_999_999]
        fill(run, *steps)
        for other in ("notes", "step-abc"):
            (run.path / "checkpoints" / other).mkdir()
        assert run.checkpoints() == [run.checkpoint_path(step) for step in sorted(steps)]
        run.prune_checkpoints(keep=2)
        assert run.checkpoints() == [run.checkpoint_path(s) for s in (999_999_999, 1_500_000_000)]
        run.set_aside_after(999_999_999)
        assert run.checkpoints() == [run.checkpoint_path(999_999_999)]
        left = {entry.name for entry in (run.path / "checkpoints").iterdir()}
        assert left == {"notes", "step-abc", "unreadable-step-1500000000", "step-999999999"}


def test_what_is_no_checkpoint_makes_way_for_one(tmp_path: Path) -> None:
    """It is renamed, never deleted: somebody may still want to look at it."""
    with RunDirectory.create(tmp_path / "run", CONFIG) as run:
        path = run.checkpoint_path(7)
        for content in ("half", "other half"):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(parents=True)
            (path / "loop.json").write_text(content)
            assert run.checkpoints() == [path]  # it counts: nobody passes over it in silence
            run.make_way(path)
            fill(run, 7)
        run.make_way(path)  # what is there now is one
        run.make_way(run.checkpoint_path(8))
        assert run.checkpoints() == [path]
        kept = sorted(run.path.glob("checkpoints/unreadable-*/loop.json"))
        assert [file.read_text() for file in kept] == ["half", "other half"]


def test_default_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = default_run_path("ale:Pong/v5", "gru", 7)
    assert re.fullmatch(r"runs/ale-Pong-v5-gru-seed7-\d{8}-\d{6}", path.as_posix())
    assert default_run_path("", "gru", 7).name.startswith("custom-gru-seed7-")
    assert default_run_path("../../x", "gru", 7).parent == Path("runs")
    made = []
    for _ in range(3):
        made.append(default_run_path("T-v0", "mamba", 1))
        made[-1].mkdir(parents=True)
    assert len(set(made)) == 3


def test_describe_machine() -> None:
    machine = describe_machine("cpu")
    assert json.loads(json.dumps(machine)) == machine
    assert machine["device"] == "cpu"
    assert machine["cores"] == os.cpu_count()
    assert machine["python"] == ".".join(map(str, sys.version_info[:3]))
    known = {"resel", "torch", "numpy", "numba", "llvmlite", "gymnasium", "safetensors"}
    assert known < set(machine["versions"]) and "mujoco" in machine["versions"]
    import torch

    assert machine["threads"] == torch.get_num_threads()
    assert machine["versions"]["torch"] == torch.__version__


def test_the_commit_of_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from resel.runs import machine

    def commit() -> str | None:
        machine.checkout_commit.cache_clear()
        return machine.checkout_commit()

    inside = tmp_path / "src" / "resel" / "runs" / "machine.py"
    monkeypatch.setattr(machine, "__file__", str(inside))
    assert commit() is None  # an installed package
    inside.parent.mkdir(parents=True)
    inside.write_text("")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    (tmp_path / "notes").write_text("what is no part of the package does not count")
    clean = commit()
    assert clean is not None and re.fullmatch("[0-9a-f]{7,}", clean)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "another"))
    assert commit() == clean == describe_machine("cpu")["commit"]
    inside.write_text("changed")
    assert commit() == f"{clean}-dirty"
    monkeypatch.undo()
    machine.checkout_commit.cache_clear()


_HOLDER = """
import sys, time
from resel.runs import RunDirectory
run = RunDirectory.open(sys.argv[1])
print("held", flush=True)
time.sleep(60)
"""


def test_lock_against_another_process(tmp_path: Path) -> None:
    path = tmp_path / "run"
    RunDirectory.create(path, CONFIG).close()
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(RunInUseError, match=rf"in use .*\(pid {process.pid}\)"):
            RunDirectory.open(path)
        assert RunDirectory.open(path, read_only=True).read_config() == CONFIG
        process.send_signal(signal.SIGKILL)
        process.wait()
        with RunDirectory.open(path) as run:
            assert run.read_config() == CONFIG
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_lock_within_one_process(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run", CONFIG)
    with pytest.raises(RunInUseError, match=f"pid {os.getpid()}"):
        RunDirectory.open(run.path)
    run.close()
    run.close()
    RunDirectory.open(run.path).close()


def test_failed_creation_gives_the_lock_back(tmp_path: Path) -> None:
    with pytest.raises(BadInputError):
        RunDirectory.create(tmp_path / "run", {"bad": object()})
    RunDirectory.create(tmp_path / "run", CONFIG).close()


def test_file_systems_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")

    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    RunDirectory.create(tmp_path / "run", CONFIG).close()
    monkeypatch.setattr("resel.runs._lock.fcntl", None)
    RunDirectory.open(tmp_path / "run").close()
