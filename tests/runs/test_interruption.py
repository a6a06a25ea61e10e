"""A save that dies at any moment leaves the old bundle or the new one."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from resel.errors import DamagedFileError
from resel.runs import RunDirectory, bundle, read_bundle, write_bundle
from resel.runs import _files as files


class Killed(BaseException):
    """Stands for SIGKILL: nothing on the disk changes any more after it."""


@contextlib.contextmanager
def killed_before(step: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Die at the given call that changes the disk, and in all later ones (clean-up included)."""
    calls: list[str] = []

    def guarded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            if len(calls) > step:
                if name == "rmtree" and len(calls) == step + 1:
                    _remove_half(Path(args[0]))
                raise Killed
            return function(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        for module, name in [
            (os, "rename"),
            (os, "write"),
            (os, "fsync"),
            (shutil, "rmtree"),
            (Path, "mkdir"),
        ]:
            patch.setattr(module, name, guarded(name, getattr(module, name)))
        yield calls


def _remove_half(folder: Path) -> None:
    for entry in sorted(folder.iterdir())[::2]:
        entry.unlink()


def save(path: Path, number: int) -> None:
    tensors = {"t": {"n": torch.full((4,), number)}}
    write_bundle(path, "checkpoint", tensors, {"n": number, "m": number})


def load(path: Path) -> int:
    found = read_bundle(path, "checkpoint")
    assert found.documents["n"] == found.documents["m"]
    assert found.tensors["t"]["n"].tolist() == [found.documents["n"]] * 4
    return int(found.documents["n"])


def steps_of_a_save(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    save(path, 1)
    with killed_before(10**6, monkeypatch) as calls:
        save(path, 2)
    return calls


def test_every_step_of_replacing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = steps_of_a_save(tmp_path / "probe", monkeypatch)
    assert steps.count("rename") == 3
    assert steps[-1] == "rmtree"
    found = []
    for step in range(len(steps)):
        run = RunDirectory.create(tmp_path / f"run{step}", {})
        path = run.checkpoint_path(7)
        save(path, 1)
        with killed_before(step, monkeypatch), pytest.raises(Killed):
            save(path, 2)
        run.close()

        found.append(load(path))
        assert RunDirectory.open(run.path, read_only=True).checkpoints() == [path]
        with RunDirectory.open(run.path) as again:  # puts things in order
            assert again.checkpoints() == [path]
        assert list(path.parent.iterdir()) == [path]
        assert load(path) == found[-1]
        save(path, 3)
        assert load(path) == 3
    assert found == sorted(found), "once the new one is there, the old one must not come back"
    assert set(found) == {1, 2}


def test_saving_again_needs_no_repair_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = steps_of_a_save(tmp_path / "probe", monkeypatch)
    for step in range(len(steps)):
        path = tmp_path / str(step) / "agent"
        save(path, 1)
        with killed_before(step, monkeypatch), pytest.raises(Killed):
            save(path, 2)
        save(path, 3)
        assert load(path) == 3
        assert not files.aside_of(path).exists()


def test_every_step_of_a_first_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with killed_before(10**6, monkeypatch) as steps:
        save(tmp_path / "probe", 1)
    for step in range(len(steps)):
        path = tmp_path / str(step) / "agent"
        with killed_before(step, monkeypatch), pytest.raises(Killed):
            save(path, 1)
        if path.exists():
            assert load(path) == 1


def test_a_failed_rename_puts_the_old_one_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "agent"
    save(path, 1)
    rename = os.rename

    def fails_for_the_new_one(source: Path, target: Path) -> None:
        if ".tmp-" in source.name:
            raise KeyboardInterrupt
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", fails_for_the_new_one)
        with pytest.raises(KeyboardInterrupt):
            save(path, 2)
    assert load(path) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_tidy_leaves_other_things_alone(tmp_path: Path) -> None:
    for name in (".tmp-mine", ".old-mine", "step-1", ".tmp-agent-0123456g"):
        (tmp_path / name).mkdir()
    (tmp_path / ".tmp-agent-01234567").mkdir()
    (tmp_path / ".tmp-config.json-89abcdef").write_text("{")
    files.tidy(tmp_path)
    names = sorted(entry.name for entry in tmp_path.iterdir())
    assert names == [".old-mine", ".tmp-agent-0123456g", ".tmp-mine", "step-1"]


_WRITER = """
import sys, itertools, time, torch
from resel.runs import write_bundle
for n in itertools.count(1):
    tensors = {"t": {"n": torch.full((4,), n)}}
    write_bundle(sys.argv[1], "checkpoint", tensors, {"n": n, "m": n})
    if n == 3:
        print("going", flush=True)
    time.sleep(0.003)  # nobody saves without a pause
"""


def test_killed_while_saving_over_and_over(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "going\n"
        end = time.monotonic() + 0.5
        seen = [load(path)]
        while time.monotonic() < end:  # a reader at the same time always finds a whole one
            seen.append(load(path))
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]
    assert load(path) >= seen[-1]


def test_a_reader_has_patience_with_a_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often the bundle is replaced while it is read, as long as that ends."""
    path, left = tmp_path / "agent", 30
    save(path, 0)

    def replaced_first(*args: Any) -> Any:
        nonlocal left
        if left > 0:
            left -= 1
            save(path, 30 - left)
        return read(*args)

    read = bundle._read
    monkeypatch.setattr(bundle, "_read", replaced_first)
    assert load(path) == 30
    left = 10**6
    monkeypatch.setattr(bundle, "_PATIENCE", 0.05)
    with pytest.raises(DamagedFileError, match="again and again"):
        load(path)
