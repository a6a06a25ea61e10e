"""A saved agent, from a run or on its own."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from resel.agent import Agent
from resel.errors import RunDirectoryError

Which = Literal["last", "best"]


def load_agent(path: Path, which: Which) -> Agent:
    """The agent of any method in a run directory, or in a folder of its own."""
    folder = path / "agents" / which if (path / "config.json").is_file() else path
    if folder != path and not folder.exists():
        other = next((name for name in ("last", "best") if (path / "agents" / name).exists()), None)
        hint = f", or use --agent {other}" if other else ""
        raise RunDirectoryError(
            f"The run in {path} has no agent '{which}' yet: wait for its first checkpoint (or its "
            f"end){hint}."
        )
    return Agent.load(folder)
