"""The Triton kernels without a GPU: run in Triton's interpreter, and compiled for real ones.

Triton reads TRITON_INTERPRET when it is first imported, so each way has a process of its own,
which runs the tests of `triton_interpreted.py` or `triton_compiled.py` beside this file.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"),
    reason="Triton is published for Linux on x86_64 and aarch64 only",
)


def run_apart(file: str, tmp_path: Path, **environment: str) -> None:
    """Run a file of tests in a new process; all must pass and none be skipped."""
    assert find_spec("triton"), "Triton is not installed: pip install -e '.[dev]' brings it."
    here = Path(__file__).parent
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("TRITON", "PYTEST"))}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            here / file,
        ],
        env={**inherited, "TRITON_CACHE_DIR": str(tmp_path), **environment},
        cwd=here.parents[1],
        capture_output=True,
        text=True,
        timeout=600,
    )
    last = done.stdout.strip().splitlines()[-1:]
    assert done.returncode == 0, done.stdout + done.stderr
    assert last and re.fullmatch(r"[1-9]\d* passed in .*", last[0]), last


def test_in_the_interpreter(tmp_path: Path) -> None:
    run_apart("triton_interpreted.py", tmp_path, TRITON_INTERPRET="1")


@pytest.mark.slow
def test_compiled_for_gpus(tmp_path: Path) -> None:
    run_apart("triton_compiled.py", tmp_path)
