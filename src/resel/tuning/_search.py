"""What is searched: a task, a method, the ranges, and how long each trial trains."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np

from resel.agent import configure, usual_preset
from resel.analysis.runs import settings_of
from resel.choices import PrunerName
from resel.config import Config
from resel.errors import ConfigError
from resel.experiments import Setting
from resel.methods import (
    Between,
    Range,
    chosen_space,
    default_method,
    is_preset_file,
    preset_method,
    run_label,
)
from resel.tasks import full_name

FIRST_SEED = 100
"""Seeds of trials begin here: those from 1 up stay fresh, for results."""
_DIGITS = 3
_NEIGHBOURS, _CHANGED, _FACTOR = 5, 3, 3.0
"""Trials close to the preset, the settings that are changed in each, and by how much at most."""


@dataclass(frozen=True)
class Search:
    """A search as it was asked for."""

    task: str
    out: Path
    method: str | None = None
    preset: str | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Settings that all trials have."""
    words: Sequence[str] = ()
    """What is searched; see `methods.chosen_space`."""
    seeds: int = 1
    storage: str | None = None
    name: str | None = None
    """Of the study."""
    pruner: PrunerName = "median"

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ConfigError(f"--seeds {self.seeds} is too small: it must be at least 1.")
        if self.pruner not in get_args(PrunerName):
            raise ConfigError(f"--pruner {self.pruner!r}: choose one of {get_args(PrunerName)}.")

    @cached_property
    def setting(self) -> Setting:
        """What all trials begin with."""
        method = self.method or preset_method(self.preset) or default_method()
        task = full_name(self.task)
        preset = self.preset or usual_preset(task)
        if is_preset_file(preset):  # workers may be elsewhere
            preset = os.path.abspath(preset)
        return Setting(task, dict(self.fixed), preset=preset, method=method)

    @cached_property
    def config(self) -> Config:
        """The settings of the preset, with what is fixed."""
        setting = self.setting
        return configure(
            setting.task, method=setting.method, preset=setting.preset, **setting.overrides
        )

    @cached_property
    def space(self) -> dict[str, Range]:
        """What is searched."""
        return chosen_space(self.config, self.words, self.fixed)

    @cached_property
    def baseline(self) -> dict[str, Any]:
        """The values of the preset, as far as they lie within the ranges."""
        flat = self.config.flat()
        return {name: flat[name] for name, r in self.space.items() if _holds(r, flat[name])}

    @cached_property
    def neighbours(self) -> list[dict[str, Any]]:
        """The preset's values with a few of them changed: most of what works is close to it.

        The same for all workers, so that a study has each of them once.
        """
        rng = np.random.default_rng(0)
        names, found = rng.permutation(list(self.baseline)).tolist(), []
        turn = itertools.cycle(names)  # each has its turn before one has its second
        for _ in range(_NEIGHBOURS if names else 0):
            changed = list(itertools.islice(turn, min(_CHANGED, len(names))))
            own = {name: _near(self.space[name], self.baseline[name], rng) for name in changed}
            found.append({**self.baseline, **own})
        return found

    @property
    def steps(self) -> int:
        """Environment steps of a run."""
        return self.config.training.steps

    @property
    def study(self) -> str:
        """The name of the study."""
        return self.name or f"{self.setting.task}-{run_label(self.config)}"

    @property
    def folder(self) -> Path:
        """Of the trials; another study in the same --out has another."""
        return self.out.absolute() / "trials" / re.sub(r"[^A-Za-z0-9._-]+", "-", self.study)

    @property
    def storage_url(self) -> str:
        """Where the study is."""
        return self.storage or f"sqlite:///{self.out.absolute() / 'study.db'}"

    @property
    def shown_storage(self) -> str:
        """The same, without a password."""
        return without_password(self.storage_url)

    @property
    def about(self) -> dict[str, Any]:
        """What trials of one study have in common."""
        kept = settings_of(self.config)
        return {
            "task": kept.pop("task"),
            "method": kept.pop("method"),
            "encoder": kept.pop("encoder"),
            "steps": kept.pop("steps"),
            "seeds": list(range(FIRST_SEED, FIRST_SEED + self.seeds)),
            "settings": {n: v for n, v in kept.items() if n not in self.space},
            "search": {name: values.to_json() for name, values in self.space.items()},
        }

    def settings_of(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a trial.

        Numbers that were drawn are rounded, so that people can write them down; the preset's own
        and those of a choice are as they were given.
        """
        return {name: self._as_drawn(name, value) for name, value in params.items()}

    def _as_drawn(self, name: str, value: Any) -> Any:
        given = name in self.baseline and value == self.baseline[name]
        drawn = isinstance(self.space.get(name), Between) and isinstance(value, float)
        return _rounded(value) if drawn and not given else value


def _holds(values: Range, value: Any) -> bool:
    if not isinstance(values, Between):
        return value in values.choices
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and values.low <= value <= values.high


def _near(values: Range, value: Any, rng: np.random.Generator) -> Any:
    """Another value, not far away."""
    if not isinstance(values, Between):
        others = _beside(values.choices, value)
        return others[int(rng.integers(len(others)))] if others else value
    if values.log:
        low, high = max(values.low, value / _FACTOR), min(values.high, value * _FACTOR)
        drawn = math.exp(rng.uniform(math.log(low), math.log(high)))
    else:
        reach = (values.high - values.low) / 4
        drawn = rng.uniform(max(values.low, value - reach), min(values.high, value + reach))
    whole = isinstance(values.low, int) and isinstance(values.high, int)
    return min(max(round(drawn) if whole else _rounded(drawn), values.low), values.high)


def _beside(choices: Sequence[Any], value: Any) -> list[Any]:
    """The next smaller and the next larger one of numbers, else all others."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return [choice for choice in choices if choice != value]
    numbers = sorted({c for c in choices if isinstance(c, int | float)})
    at = numbers.index(value)
    return [*numbers[max(at - 1, 0) : at], *numbers[at + 1 : at + 2]]


def _rounded(value: float) -> float:
    """To a few digits; close below 1, of the distance to it."""
    if 0.9 < value < 1:
        return round(1 - float(f"{1 - value:.{_DIGITS}g}"), 12)
    return float(f"{value:.{_DIGITS}g}")


def without_password(text: str) -> str:
    """A URL, or words that hold one, as people may see it."""
    text = re.sub(r"(://[^:/@?\s]*):[^?\s]*@", r"\1:***@", text)
    return re.sub(r"((?:password|passwd|pwd)=)[^&\s]*", r"\1***", text)
