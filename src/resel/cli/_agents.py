"""A saved agent, from a run or on its own."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from resel.agent import Agent
from resel.cli.console import warn
from resel.errors import ReselError, RunDirectoryError
from resel.runs import RunDirectory, agent_step
from resel.zoo import locate

Which = Literal["last", "best"]


class Loaded(NamedTuple):
    """An agent, and which one it is."""

    agent: Agent
    name: str | None
    """Its name in its run; None for one in a folder of its own."""
    step: int | None
    """The step at which it was saved, where that is known."""

    def __str__(self) -> str:
        which = "the saved agent" if self.name is None else f"the agent '{self.name}' of the run"
        return which if self.step is None else f"{which}, saved at step {self.step:,}"


def load_agent(path: Path, which: Which) -> Loaded:
    """The agent of any method in a run directory, in a folder of its own, or of the zoo.

    A run that is too young for the one that is asked for gives the other; that, and that a run has
    diverged, is told.
    """
    path = locate(path)
    if not (path / "config.json").is_file():
        return Loaded(Agent.load(path), None, agent_step(path))
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
    folder = path / "agents" / found
    return Loaded(Agent.load(folder), found, agent_step(folder))


def _tell_of_divergence(path: Path, agent: str) -> None:
    try:
        result = RunDirectory.open(path, read_only=True).read_result() or {}
    except ReselError:  # the agent can be good all the same
        return
    if result.get("status") == "diverged":
        other = " --agent best takes the best one before that." if agent == "last" else ""
        warn(f"The run in {path} has diverged. {result.get('fault')} This is its '{agent}'.{other}")
