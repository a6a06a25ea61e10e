"""A signal is acknowledged at once, whatever the run is at."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from pathlib import Path

from command import COMMAND


def read_until(process: subprocess.Popen[bytes], words: bytes, seconds: float) -> bytes:
    """What it says until it has said these words; fails if that takes longer."""
    assert process.stdout is not None
    said, until = b"", time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while words not in said:
            left = until - time.monotonic()
            assert left > 0 and selector.select(left), f"no {words!r} in {said.decode()}"
            said += os.read(process.stdout.fileno(), 65536)
    return said


def test_ctrl_c_while_kernels_are_compiled(tiny_flags: list[str], tmp_path: Path) -> None:
    """With no kernel on disk the first update takes a minute; the answer does not."""
    flags = [*tiny_flags, "--warmup-steps", "30", "--run-dir", str(tmp_path / "run")]
    process = subprocess.Popen(
        [COMMAND, "train", "TMaze-v0", *flags, "--steps", "1e6", "--threads", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_CACHE_DIR": str(tmp_path / "none")},
    )
    try:
        read_until(process, b"Compiling kernels for this machine", 120)
        until = time.monotonic() + 120
        helper = (
            "*_add_product*.nbi"  # once it is compiled, the recurrence that calls it is: seconds
        )
        while not list((tmp_path / "none").rglob(helper)) and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        asked = time.monotonic()
        read_until(process, b"Stopping after this step", 10)
        assert time.monotonic() - asked < 2
        process.send_signal(signal.SIGINT)
        read_until(process, b"Left without saving", 60)
        process.wait(60)
        assert process.returncode == 130
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
