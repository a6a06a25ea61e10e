"""Costs of updates that were measured on this machine before, in the user's cache folder.

They are estimates when versions or the code of an update have changed since. What cannot be read is
as if it were not there, and what cannot be written is measured again next time: a plan never fails
here.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from resel.benchmarks.cost import UpdateCost
from resel.benchmarks.cost_model import CostModel
from resel.benchmarks.play_cost import PlayCost
from resel.config import Config
from resel.data import PerEpisode, PerRollout, PerStep, Pretrained, Schedule
from resel.errors import ReselError
from resel.methods import get_method
from resel.networks import encoder_spec
from resel.runs import numeric_machine, write_json
from resel.tasks import source_digest

_SCHEDULES = {kind.__name__: kind for kind in (PerStep, PerEpisode, PerRollout, Pretrained)}
_UPDATE = ("data", "losses", "methods", "networks", "optim", "training")
"""The rooms that an update runs through."""
_MOST = 2000
"""Costs that a file holds: those of older code leave it at last."""


def cache_folder() -> Path:
    """Where what can be made again is kept: RESEL_CACHE, or `resel` in the user's cache folder."""
    own, users = os.environ.get("RESEL_CACHE"), os.environ.get("XDG_CACHE_HOME")
    return Path(own) if own else Path(users or Path.home() / ".cache") / "resel"


class KeptCosts:
    """Costs by config and threads, as far as they are known here, and a model of the others."""

    def __init__(self, again: bool = False, folder: Path | None = None) -> None:
        """With `again`, what is known is measured anew."""
        machine = numeric_machine("cpu")
        machine["sources"] = _source_digest()
        del machine["threads"]  # every cost has its own
        hardware = [machine.pop(name) for name in ("processor", "instructions", "system")]
        name = f"costs-{_digest([*hardware, os.cpu_count()])}.json"
        self._path, self._versions = (folder or cache_folder()) / name, machine
        self._now = _digest(machine)
        self._found, self._models = ({}, {}) if again else self._read()

    def find(self, config: Config, threads: int) -> UpdateCost | None:
        """What was measured before with these versions and this code."""
        cost = self.find_any(config, threads)
        return None if cost is None or cost.estimated else cost

    def find_any(self, config: Config, threads: int) -> UpdateCost | None:
        """What was measured before; an estimate, if that was with others."""
        try:
            found = self._found[_key(config, threads)]
            numbers = (float(found["seconds"]), int(found["memory"]), int(found["saved"]))
            schedule, playing = found["schedule"], PlayCost.from_json(found["playing"])
            stale = found.get("versions") != self._now
            return UpdateCost(*numbers, _schedule_from(schedule), playing, estimated=stale)
        except (KeyError, TypeError, ValueError):
            return None

    def keep(self, config: Config, threads: int, cost: UpdateCost) -> None:
        """Remember a cost, unless its code is not ours to know the changes of."""
        # One that depends on what happens says what is due in the long run.
        schedule = _schedule_to(getattr(cost.schedule, "ahead", cost.schedule))
        if schedule is None or not self.keeps(config):
            return
        numbers = {"seconds": cost.seconds, "memory": cost.memory, "saved": cost.saved}
        parts = {"schedule": schedule, "playing": cost.playing.to_json(), "versions": self._now}
        self._found[_key(config, threads)] = {"task": config.task, **numbers, **parts}
        self._write()

    def find_model(self, threads: int) -> CostModel | None:
        """What this machine was measured to be like, with whatever code."""
        try:
            found = self._models[str(threads)]
            return CostModel(**{name: float(value) for name, value in found.items()})
        except (AttributeError, KeyError, TypeError, ValueError):
            return None

    def keep_model(self, threads: int, model: CostModel) -> None:
        """Remember what this machine is like."""
        self._models[str(threads)] = asdict(model)
        self._write()

    @staticmethod
    def keeps(config: Config) -> bool:
        """Whether method, encoder and environment change only with what is compared: versions,
        and the file of an environment."""
        kinds: list[type[Any]] = [get_method(config.method).settings]
        if config.encoder is not None:
            kinds.append(encoder_spec(config.encoder).settings)
        if not all(kind.__module__.startswith("resel.") for kind in kinds):
            return False
        return ":" not in config.task or source_digest(config.task) is not None

    def _read(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Costs and models, of these versions or of others."""
        try:
            document = json.loads(self._path.read_text(encoding="utf-8"))
            return dict(document["costs"]), dict(document.get("models", {}))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}, {}

    def _write(self) -> None:
        """With what another process may have measured meanwhile."""
        with contextlib.suppress(OSError, ReselError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            costs, models = self._read()
            newest = list((costs | self._found).items())[-_MOST:]
            document = {"costs": dict(newest), "models": models | self._models}
            write_json(self._path, {"versions": self._versions, **document})


def cost_key(config: Config, threads: int) -> str:
    """The same for all that train the same network on batches of the same size as often."""
    # Rates, discounts and scales are numbers that an update takes as they come.
    settings = {n: v for n, v in vars(config.algorithm).items() if not isinstance(v, float)}
    networks = (config.network, config.encoder, config.encoder_settings)
    when = (config.training.updates_per_step, config.training.num_envs)
    return repr((config.method, settings, *networks, *when, threads))


def _key(config: Config, threads: int) -> str:
    """The same for the same sizes of the environment besides."""
    training = config.training
    world = (config.task, training.env_kwargs, training.max_episode_steps)
    source = source_digest(config.task)
    return _digest([cost_key(config, threads), *world, *([] if source is None else [source])])


def _schedule_to(schedule: Schedule) -> dict[str, Any] | None:
    """A schedule as plain data; None for one that is not of ours."""
    if type(schedule) not in _SCHEDULES.values():
        return None
    document: dict[str, Any] = {"kind": type(schedule).__name__}
    for name, value in vars(schedule).items():
        if name == "then":
            document[name] = _schedule_to(value)
        elif not callable(value):  # updates made so far, of which a plan has none
            document[name] = value
    return None if document.get("then", {}) is None else document


def _schedule_from(document: Mapping[str, Any]) -> Schedule:
    fields = {name: value for name, value in document.items() if name != "kind"}
    if "then" in fields:
        fields |= {"then": _schedule_from(fields["then"]), "made": lambda: 0}
    schedule: Schedule = _SCHEDULES[document["kind"]](**fields)
    return schedule


def _source_digest() -> str:
    """Changes whenever the code of an update does."""
    package = Path(__file__).parents[1]
    files = [file for room in _UPDATE for file in sorted((package / room).rglob("*.py"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def _digest(facts: object) -> str:
    text = json.dumps(facts, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
