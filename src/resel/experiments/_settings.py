"""The words the catalogue is written in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from resel.agent import configure
from resel.choices import Scale
from resel.config import Config
from resel.errors import ConfigError
from resel.methods import default_method
from resel.tasks import full_name

SCALES: tuple[Scale, ...] = get_args(Scale)
Kind = Literal[
    "curves",
    "finals",
    "table",
    "amplification",
    "timing",
    "embedding",
    "lengths",
    "anchors",
    "mmer",
    "rates",
    "comparison",
]
NEED_AGENTS: tuple[Kind, ...] = ("amplification", "embedding")
"""Outcomes that are made from trained policies, not from numbers."""
MEASURE_AGENTS: tuple[Kind, ...] = ("lengths", "anchors", "mmer")
"""Outcomes for which trained policies are measured once more."""
Measure = Literal["return", "exploration", "success"]


@dataclass(frozen=True)
class Setting:
    """How one line of a figure, or one row of a table, is trained; the seed comes later."""

    task: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Settings on top of the preset, by flat name."""
    group: str = "RESeL"
    """The line of the figure this belongs to."""
    panel: str | None = None
    """The part of the figure; the task, if not given."""
    x: float | None = None
    """Where it stands along the axis of a figure of final values."""
    preset: str = "paper"
    method: str | None = None
    """The default one, if not given."""
    seeds: tuple[int, ...] | None = None
    """Those of the study's seeds it is run with; all, if not given."""

    @property
    def method_name(self) -> str:
        """The method that learns."""
        return self.method or default_method()

    @property
    def place(self) -> str:
        """The panel it is drawn in."""
        return self.panel or self.task

    def config(self, seed: int) -> Config:
        """The complete settings of one run."""
        settings: dict[str, Any] = {**self.overrides, "seed": seed}
        return configure(self.task, method=self.method, preset=self.preset, **settings)

    def flags(self, seed: int) -> list[str]:
        """The same as words after `resel train`."""
        words = [full_name(self.task), "--preset", self.preset]
        if self.method is not None:
            words += ["--method", self.method]
        for name, value in {**self.overrides, "seed": seed}.items():
            flag = name.replace("_", "-")
            if isinstance(value, Mapping):
                words += [f"--{flag}", *(f"{n}={json.dumps(v)}" for n, v in value.items())]
            elif isinstance(value, bool):
                words.append(f"--{flag}" if value else f"--no-{flag}")
            else:
                words += [f"--{flag}", str(value)]
        return words


@dataclass(frozen=True)
class Study:
    """An experiment at one scale."""

    settings: tuple[Setting, ...] = ()
    seeds: tuple[int, ...] = ()
    marks: tuple[int, ...] = ()
    """Table: steps at which runs are read; none reads them at their end."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """What the outcome needs to know besides."""

    def __post_init__(self) -> None:
        for setting in self.settings:
            foreign = set(setting.seeds or ()) - set(self.seeds)
            if foreign:
                raise ConfigError(
                    f"{setting.task} has the seeds {sorted(foreign)}, which its study does not "
                    f"have: {self.seeds}."
                )

    @property
    def count(self) -> int:
        """Runs in all."""
        return len(list(self.runs()))

    def runs(self) -> Iterator[tuple[Setting, int]]:
        """Seed by seed, so that a sweep that is cut short has compared like with like."""
        for seed in self.seeds:
            for setting in self.settings:
                if setting.seeds is None or seed in setting.seeds:
                    yield setting, seed


@dataclass(frozen=True)
class Experiment:
    """One figure or table of the paper, at every scale."""

    name: str
    title: str
    shows: str
    """Label of the figure or table in the paper."""
    kind: Kind
    studies: Mapping[Scale, Study]
    measures: tuple[Measure, ...] = ("return",)
    table: str | None = None
    """Where the paper's numbers stand in `analysis/paper_tables/tables.csv`."""
