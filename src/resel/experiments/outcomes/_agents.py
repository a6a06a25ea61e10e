"""Trained agents measured again, each time in the same episodes, which no training has seen.

What was measured is kept in a file beside the outcome, so that drawing again is fast.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from resel.agent import Agent
from resel.choices import Which
from resel.errors import DamagedFileError, RunDirectoryError
from resel.experiments.archive import read_measured
from resel.runs import find_bundle
from resel.training import evaluate, evaluation_seeds
from resel.training.threads import threads_for

FILE = "evaluations.json"
_SEED = 1_000_000
"""Chooses the episodes; no run has it as its own."""


class Measured(NamedTuple):
    """An agent over some episodes."""

    return_mean: float
    success_rate: float | None


class Evaluations:
    """The evaluations of one experiment."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._known = self._read()

    def of(
        self, run: Path, which: Which, episodes: int, env_kwargs: Mapping[str, Any] | None = None
    ) -> Measured:
        """Those of a run's last or best agent, measured now or before."""
        words = [which, f"{episodes} episodes"]
        words += [f"{name}={value}" for name, value in sorted((env_kwargs or {}).items())]
        what = " ".join(words)
        agent, digest = find_bundle(run / "agents" / which), _digest(run, which)
        if agent is None or digest is None:
            return _archived(run, which, what)
        key = f"{run.name} {digest} {what}"
        if key not in self._known:
            self._known[key] = measure(agent, episodes, env_kwargs or {})
            self._write()
        return self._known[key]

    def about(self, run: Path) -> dict[str, dict[str, Any]]:
        """All that was measured of a run's agents, by what was asked."""
        agents = {which: _digest(run, which) for which in ("last", "best")}
        return {
            what: found._asdict()
            for key, found in self._known.items()
            for name, digest, what in [(*key.split(maxsplit=2), "", "")[:3]]
            if name == run.name and digest and digest == agents.get(what.partition(" ")[0])
        }

    def _read(self) -> dict[str, Measured]:
        if not self._path.exists():
            return {}
        try:
            found = json.loads(self._path.read_bytes())
            return {str(key): _measured(values) for key, values in found.items()}
        except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
            raise DamagedFileError(
                f"{self._path} cannot be read ({type(error).__name__}: {error}): delete it, and "
                "the agents are measured again."
            ) from error

    def _write(self) -> None:
        text = json.dumps({key: found._asdict() for key, found in self._known.items()}, indent=1)
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(text + "\n", encoding="utf-8")
        os.replace(temporary, self._path)


def measure(path: Path, episodes: int, env_kwargs: Mapping[str, Any]) -> Measured:
    """The deterministic policy of a saved agent, in the task with these arguments."""
    with (
        closing(Agent.load(path)) as agent,
        threads_for(agent.config),
        closing(agent.make_evaluation_env(env_kwargs)) as env,
    ):
        found = evaluate(agent.actor, env, evaluation_seeds(_SEED, episodes))
    return Measured(found.return_mean, found.success_rate)


def _digest(run: Path, which: Which) -> str | None:
    """Of its hashes, so that the agent of a run that was made anew is another one."""
    agent = find_bundle(run / "agents" / which)
    if agent is None:
        return None
    return hashlib.sha256((agent / "manifest.json").read_bytes()).hexdigest()[:16]


def _archived(run: Path, which: Which, what: str) -> Measured:
    """What is known of an agent that is no longer there."""
    try:
        return _measured(read_measured(run)[what])
    except (KeyError, TypeError, ValueError) as error:
        raise RunDirectoryError(
            f"The run in {run} has no agent {which!r} to be measured ({what}), and it was not "
            "measured before: delete the run, and the same command makes it anew."
        ) from error


def _measured(values: Mapping[str, Any]) -> Measured:
    success = values["success_rate"]
    return Measured(float(values["return_mean"]), None if success is None else float(success))
