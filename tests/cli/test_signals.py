"""A signal is acknowledged at once, whatever the run is at."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from pathlib import Path

import pytest
from command import COMMAND


def read_until(
    process: subprocess.Popen[bytes], words: bytes, seconds: float, *or_: bytes
) -> bytes:
    """What it says until it has said these words, or others; fails if that takes longer."""
    assert process.stdout is not None
    said, until = b"", time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not any(wanted in said for wanted in (words, *or_)):
            left = until - time.monotonic()
            assert left > 0 and selector.select(left), f"no {words!r} in {said.decode()}"
            said += os.read(process.stdout.fileno(), 65536)
    return said


def start(tiny_flags: list[str], tmp_path: Path, cores: set[int]) -> subprocess.Popen[bytes]:
    """A run that has no kernel on disk, on these cores."""
    flags = [*tiny_flags, "--warmup-steps", "30", "--run-dir", str(tmp_path / "run")]
    return subprocess.Popen(
        [COMMAND, "train", "TMaze-v0", *flags, "--steps", "1e6", "--threads", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_CACHE_DIR": str(tmp_path / "none")},
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="nothing goes on beside on one core")
def test_ctrl_c_while_kernels_are_compiled_beside_the_warm_up(
    tiny_flags: list[str], tmp_path: Path
) -> None:
    """The run need not wait for them to be stopped, and is saved."""
    process = start(tiny_flags, tmp_path, os.sched_getaffinity(0))
    try:
        read_until(process, b"Compiling kernels for this machine while the warm-up plays", 120)
        until = time.monotonic() + 120
        while not list((tmp_path / "none").rglob("*.nbi")) and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        read_until(process, b"Go on with: ", 30)
        process.wait(60)
        assert process.returncode == 130
        assert list((tmp_path / "run" / "checkpoints").iterdir())
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_ctrl_c_while_kernels_are_compiled(tiny_flags: list[str], tmp_path: Path) -> None:
    """With no kernel on disk the first update takes a minute; the answer does not."""
    assert any(_left_while_compiling(tiny_flags, tmp_path / str(n)) for n in range(3))


def _left_while_compiling(tiny_flags: list[str], folder: Path) -> bool:
    """False where the kernels were there before it was asked for the second time."""
    process = start(tiny_flags, folder, {min(os.sched_getaffinity(0))})
    try:
        read_until(process, b"Compiling kernels for this machine", 120)
        until = time.monotonic() + 120
        helper = (
            "*_add_product*.nbi"  # once it is compiled, the recurrence that calls it is: seconds
        )
        while not list((folder / "none").rglob(helper)) and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        asked = time.monotonic()
        read_until(process, b"Stopping after this step", 10)
        assert time.monotonic() - asked < 2
        process.send_signal(signal.SIGINT)
        said = read_until(process, b"Left without saving", 60, b"Go on with: ")
        process.wait(60)
        assert process.returncode == 130
        return b"Left without saving" in said
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
