"""A terminal of 80 columns in an empty folder, and a run to look at."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from terminal import SMALL

from resel.cli import main


@pytest.fixture(autouse=True)
def _terminal(own_folder: None, narrow_terminal: None) -> None:
    pass


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_flags: list[str]) -> Path:
    """A run of the T-maze that nobody may change."""
    path = tmp_path_factory.mktemp("runs") / "finished"
    threads = torch.get_num_threads()
    assert main(["train", "TMaze-v0", *tiny_flags, *SMALL, "--run-dir", str(path)]) == 0
    torch.set_num_threads(threads)
    return path
