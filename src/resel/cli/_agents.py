"""A saved agent, the environment it is measured in, and the episodes it plays."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from resel.agent import Agent
from resel.config import Config
from resel.envs import CheckedEnv
from resel.errors import RunDirectoryError
from resel.training import make_task

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


def evaluation_env(config: Config, render_mode: str | None = None) -> CheckedEnv:
    """The environment that evaluations of a run are made in."""
    return CheckedEnv(
        make_task(config, evaluation=True, render_mode=render_mode),
        longest=config.training.buffer_steps,
    )
