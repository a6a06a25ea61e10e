"""The CPU threads of a run that has begun: only with as many does it go on bit for bit."""

from __future__ import annotations

import os

from resel.errors import ReselError
from resel.runs.bundle import read_document
from resel.runs.directory import RunDirectory


def threads_so_far(path: str | os.PathLike[str]) -> int | None:
    """Those its newest good checkpoint was made with; None where there is none."""
    try:
        checkpoints = RunDirectory.open(path, read_only=True).checkpoints()
    except ReselError:  # what is no run, and told elsewhere
        return None
    for checkpoint in reversed(checkpoints):
        try:
            threads = read_document(checkpoint, "checkpoint", "run")["machine"]["threads"]
        except (ReselError, KeyError, TypeError):  # damaged, which is told when it is to be used
            continue
        return threads if type(threads) is int and threads > 0 else None
    return None
