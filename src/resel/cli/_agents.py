"""A saved agent, from a run or on its own."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from resel.agent import Agent
from resel.cli.console import warn
from resel.errors import ReselError, RunDirectoryError
from resel.runs import RunDirectory

Which = Literal["last", "best"]


def load_agent(path: Path, which: Which) -> Agent:
    """The agent of any method in a run directory, or in a folder of its own.

    A run that is too young for the one that is asked for gives the other; that, and that a run has
    diverged, is told.
    """
    if not (path / "config.json").is_file():
        return Agent.load(path)
    there = [name for name in ("last", "best") if (path / "agents" / name).exists()]
    if not there:
        raise RunDirectoryError(
            f"The run in {path} has no agent yet: wait for its first evaluation or checkpoint, or "
            "for its end."
        )
    found = which if which in there else there[0]
    if found != which:
        warn(f"The run in {path} is too young to have the agent '{which}': this is '{found}'.")
    _tell_of_divergence(path, found)
    return Agent.load(path / "agents" / found)


def _tell_of_divergence(path: Path, agent: str) -> None:
    try:
        result = RunDirectory.open(path, read_only=True).read_result() or {}
    except ReselError:  # the agent can be good all the same
        return
    if result.get("status") == "diverged":
        other = " --agent best takes the best one before that." if agent == "last" else ""
        warn(f"The run in {path} has diverged. {result.get('fault')} This is its '{agent}'.{other}")
