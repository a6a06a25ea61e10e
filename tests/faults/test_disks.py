"""Disks that are full, read-only or failing: the run waits, then leaves, and loses nothing."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from resel.cli import main
from resel.config import Config
from resel.errors import RunDirectoryError, StorageError
from resel.runs import MetricsLog, RetryWrites, Run, read_bundle, read_metrics

COMMAND = str(Path(sys.executable).with_name("resel"))
STEPS = "120"


def lines(run: Path) -> list[dict[str, Any]]:
    return [ln for ln in read_metrics(run / "metrics.jsonl") if ln["kind"] != "timing"]


def same_run(a: Path, b: Path) -> bool:
    one, other = (read_bundle(p / "agents/last", "agent").tensors["weights"] for p in (a, b))
    return lines(a) == lines(b) and all(torch.equal(one[k], other[k]) for k in one)


@pytest.fixture
def flags(tiny_flags: list[str]) -> list[str]:
    often = ["--checkpoint-every", "20", "--eval-every", "30", "--threads", "1", "--steps", STEPS]
    return [*tiny_flags, *often, "--disk-wait", "0.02", "--disk-tries", "3"]


@pytest.fixture
def whole(flags: list[str], tmp_path: Path) -> Path:
    threads = torch.get_num_threads()
    assert main(["train", "TMaze-v0", *flags, "--run-dir", str(tmp_path / "whole")]) == 0
    torch.set_num_threads(threads)
    return tmp_path / "whole"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB, where the system lets us make one."""
    path = tmp_path / "disk"
    path.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(path)], capture_output=True
    )
    if made.returncode:
        pytest.skip("mounting is not permitted here; the same is tested with a shim below")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("freed", [False, True])
def test_a_disk_that_fills_up(
    small_disk: Path, whole: Path, flags: list[str], freed: bool, tmp_path: Path
) -> None:
    """A real one, in a real process: what was saved is good, and the run goes on once there is
    room again, by itself while it waits or by a resume afterwards."""
    run = small_disk / "run"
    ballast = small_disk / "ballast"
    first = [COMMAND, "train", "TMaze-v0", *flags, "--run-dir", str(run)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*first, "--steps", "40"], capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr
    room = shutil.disk_usage(small_disk).free
    ballast.write_bytes(b"x" * max(0, room - 60_000))
    patient = ["--disk-wait", "0.5", "--disk-tries", "12"] if freed else []
    process = subprocess.Popen(
        [*first, *patient, "--resume", "auto"], stderr=subprocess.PIPE, env=environment, text=True
    )
    assert process.stderr is not None
    told = []
    for line in process.stderr:
        told.append(line)
        if freed and "The run pauses" in line:
            ballast.unlink(missing_ok=True)
    process.stderr.close()
    code = process.wait(timeout=60)
    assert "Traceback" not in "".join(told)
    if freed:
        assert code == 0
    else:
        assert code == 4
        assert "No space left on device" in told[-1]
        for place in (run / "checkpoints").glob("step-*"):
            read_bundle(place, "checkpoint")
        read_bundle(run / "agents/last", "agent")
        ballast.unlink()
        resumed = subprocess.run(
            [COMMAND, "resume", str(run)], capture_output=True, env=environment
        )
        assert resumed.returncode == 0, resumed.stderr
    found = [line for line in lines(run) if (line["kind"], line["step"]) != ("eval", 40)]
    assert found == lines(whole)


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int, int], list[str]]:
    """Make a call of the operating system fail from its n-th use on."""

    def install(call: str, code: int, after: int) -> list[str]:
        real, seen = getattr(os, call), []

        def failing(*args: Any, **more: Any) -> Any:
            seen.append(call)
            if len(seen) > after:
                raise OSError(code, os.strerror(code))
            return real(*args, **more)

        monkeypatch.setattr(os, call, failing)
        return seen

    return install


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("write", errno.ENOSPC),
        ("write", errno.EIO),
        ("write", errno.EDQUOT),
        ("fsync", errno.EIO),
        ("mkdir", errno.EROFS),
        ("mkdir", errno.EACCES),
        ("rename", errno.EXDEV),
        ("rename", errno.EIO),
        ("replace", errno.EROFS),
    ],
)
@pytest.mark.parametrize("after", [0, 1, 4])
def test_a_save_that_fails_is_never_swallowed(
    going: Any,
    refuse: Any,
    replace_tree: Any,
    call: str,
    code: int,
    after: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = refuse(call, code, after)
    told = ""
    try:
        going.save()
    except StorageError as error:
        told = str(error)
    monkeypatch.undo()
    failed = os.strerror(code) in told
    assert failed == (len(seen) > after)  # if it was called that often, it was told
    replace_tree(going.path, tmp_path / "left")
    assert going.step_left_in(tmp_path / "left") in ((60, 80) if failed else (80,))
    assert not list(going.path.rglob(".tmp-*")) or call in ("rename", "mkdir")
    going.save()  # the disk is good again
    replace_tree(going.path, tmp_path / "after")
    assert going.step_left_in(tmp_path / "after") == 80


def test_a_pause_and_another_try(
    small_config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config.replace(disk_tries=4, disk_wait=0.001, steps=60)
    run = Run(config, tmp_path / "run")
    real, failures = os.fsync, iter([True, False, True, True])

    def sometimes(descriptor: int) -> None:
        if next(failures, False):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sometimes)
    with pytest.warns(UserWarning, match="The run pauses") as told:
        assert run.train()["status"] == "completed"
    monkeypatch.undo()
    run.close()
    assert len(told) == 3
    again = Run(config, tmp_path / "run", "auto")
    assert again.resumed_at == 60
    again.close()


def test_a_disk_that_never_comes_back(
    small_config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(small_config.replace(disk_tries=3, disk_wait=0.001, steps=60), tmp_path / "run")

    def full(*args: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.warns(UserWarning, match="No space"), pytest.raises(StorageError) as caught:
            run.train()
    run.close()
    assert caught.value.exit_code == 4


def test_metrics_wait_for_room(tmp_path: Path) -> None:
    """A line is written once and whole, however often it takes."""
    with MetricsLog(tmp_path, tensorboard=False, patience=RetryWrites(3, 0.001)) as log:
        log.write("train", 1, {})
        stream: Any = log._stream
        halves = iter([True, True])

        class Full:
            def __getattr__(self, name: str) -> Any:
                return getattr(stream, name)

            def write(self, data: bytes) -> int:
                half = next(halves, False)
                return int(stream.write(data[: len(data) // 2] if half else data))

        full: Any = Full()
        log._stream = full
        with pytest.warns(UserWarning, match="No space left"):
            log.write("train", 2, {})
        log._stream = stream
        log.write("train", 3, {})
    assert [line["step"] for line in read_metrics(tmp_path / "metrics.jsonl")] == [1, 2, 3]


def test_tensorboard_is_given_up_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MetricsLog(tmp_path) as log:
        log.write("train", 1, {"loss": 1.0})
        writer: Any = log._writer

        def full(*args: Any) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            patch.setattr(writer, "add_scalar", full)
            with pytest.warns(UserWarning, match=r"TensorBoard.*No space left.*metrics\.jsonl"):
                log.write("train", 2, {"loss": 1.0})
            log.write("train", 3, {"loss": 1.0})
    assert [line["step"] for line in read_metrics(tmp_path / "metrics.jsonl")] == [1, 2, 3]


def test_a_directory_that_cannot_be_written(small_config: Config, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunDirectoryError, match="file is in the way") as caught:
        Run(small_config, tmp_path / "file")
    assert caught.value.exit_code == 2
