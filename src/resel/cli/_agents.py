"""A saved agent, from a run or on its own."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from resel.agent import Agent
from resel.choices import Which
from resel.cli.console import warn
from resel.errors import DivergedError, ReselError, RunDirectoryError
from resel.runs import RunDirectory, agent_learned, agent_step
from resel.zoo import locate


class Loaded(NamedTuple):
    """An agent, and which one it is."""

    agent: Agent
    name: str | None
    """Its name in its run; None for one in a folder of its own."""
    step: int | None
    """The step at which it was saved, where that is known."""
    learned: bool | None
    """Whether any update was made before, where that is known."""

    def __str__(self) -> str:
        which = "the saved agent" if self.name is None else f"the agent '{self.name}' of the run"
        return which if self.step is None else f"{which}, saved at step {self.step:,}"


def load_agent(path: Path, which: Which, *, refuse_diverged: bool = False) -> Loaded:
    """The agent of any method in a run directory, in a folder of its own, or of the zoo.

    A run that is too young for the one that is asked for gives the other; that, and that a run has
    diverged, is told. With `refuse_diverged` the last agent of such a run is refused.
    """
    given, path = path, locate(path)
    if not (path / "config.json").is_file():
        if which == "best":
            warn(f"{given} is a single agent, not a run: --agent best chooses nothing there.")
        return Loaded(Agent.load(path), None, agent_step(path), agent_learned(path))
    there = [name for name in ("last", "best") if (path / "agents" / name).exists()]
    if not there:
        raise RunDirectoryError(
            f"The run in {path} has no agent yet: wait for its first evaluation or checkpoint, or "
            "for its end."
        )
    found = which if which in there else there[0]
    if found != which:
        warn(f"The run in {path} is too young to have the agent '{which}': this is '{found}'.")
    refuse = refuse_diverged and found == "last"
    _tell_of_divergence(path, found, refuse=refuse, better="best" in there and found == "last")
    folder = path / "agents" / found
    return Loaded(Agent.load(folder), found, agent_step(folder), agent_learned(folder))


def _tell_of_divergence(path: Path, agent: str, *, refuse: bool, better: bool) -> None:
    """`better` says that there is a best agent beside this one."""
    try:
        result = RunDirectory.open(path, read_only=True).read_result() or {}
    except ReselError:
        if refuse:
            raise
        return  # the agent can be good all the same
    if result.get("status") != "diverged":
        return
    other = " --agent best takes the best one before that." if better else ""
    fault = f"The run in {path} has diverged"
    if refuse:
        raise DivergedError(f"{fault}, and its last agent with it. {result.get('fault')}{other}")
    warn(f"{fault}. {result.get('fault')} This is its '{agent}'.{other}")
