"""The installed command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COMMAND = str(Path(sys.executable).with_name("resel"))


def start(*argv: str) -> subprocess.Popen[str]:
    """`resel ARGV`, whose output can be read when it has ended."""
    return subprocess.Popen(
        [COMMAND, *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
