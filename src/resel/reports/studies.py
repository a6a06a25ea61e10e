"""Runs that differ only in their seed, taken together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from resel.analysis.runs import RunRecord, settings_key, settings_of
from resel.analysis.statistics import mean_and_error
from resel.methods import run_label
from resel.reports.collection import Collection

_LONGEST_LABEL = 48


@dataclass(frozen=True)
class Group:
    """Runs of one task and one method."""

    task: str
    label: str
    runs: list[RunRecord]

    @property
    def scores(self) -> list[float]:
        """The final scores of those runs that have one; a diverged run may have none."""
        found = [run.final_return for run in self.runs if run.final_return is not None]
        return [score for score in found if math.isfinite(score)]

    @property
    def same_settings(self) -> bool:
        """Whether all runs were given the same settings; experiment.json may say otherwise."""
        return len({settings_key(run.config) for run in self.runs}) == 1


@dataclass(frozen=True)
class Study:
    """The methods that were compared on one task."""

    title: str
    """Of the experiment; empty for runs that belong to none."""
    task: str
    groups: list[Group]


def ranked(groups: Sequence[Group]) -> list[Group]:
    """The best first, those without a score last."""
    return sorted(
        groups, key=lambda g: mean_and_error(g.scores)[0] if g.scores else -math.inf, reverse=True
    )


def studies(found: Collection) -> list[Study]:
    """Experiment by experiment with its own labels, then the other runs by equal settings."""
    runs = {run.path: run for run in found.runs}
    compared, taken = [], set()
    for experiment in found.experiments:
        members = [member for member in experiment.members if member.path in runs]
        taken |= {member.path for member in members}
        compared += _by_task(experiment.title, [(m.label, runs[m.path]) for m in members])
    return compared + _by_task("", [("", run) for run in found.runs if run.path not in taken])


def _by_task(title: str, pairs: Sequence[tuple[str, RunRecord]]) -> list[Study]:
    by_task: dict[str, dict[Any, list[RunRecord]]] = {}
    for label, run in pairs:
        # A label groups runs whatever their settings; without one, equal settings do.
        key = (label, None if label else settings_key(run.config))
        by_task.setdefault(run.config.task, {}).setdefault(key, []).append(run)
    return [
        Study(title, task, _named(task, {k: _unique(v) for k, v in by_task[task].items()}))
        for task in sorted(by_task)
    ]


def _named(task: str, groups: dict[Any, list[RunRecord]]) -> list[Group]:
    members = list(groups.values())
    return [
        Group(task, label or telling_label(runs, members), runs)
        for (label, _), runs in groups.items()
    ]


def _unique(runs: list[RunRecord]) -> list[RunRecord]:
    return list({run.path: run for run in runs}.values())


def telling_label(members: list[RunRecord], groups: list[list[RunRecord]]) -> str:
    """What tells this group from the others of its task, in few words."""
    own, others = settings_of(members[0].config), [settings_of(g[0].config) for g in groups]
    telling = [  # what only one method or encoder has is told by its name
        name
        for name, value in own.items()
        if name not in ("method", "encoder") and any(o.get(name, value) != value for o in others)
    ]
    method = run_label(members[0].config)
    rivals = [other for other in others if other != own and _same_name(other, own)]
    label = _with_settings(method, own, telling)
    if len(label) <= _LONGEST_LABEL:
        return label
    few = _fewest(own, rivals, telling)
    more = len(telling) - len(few)
    return _with_settings(method, own, few) + (f", {more} more" if few and more else "")


def _with_settings(method: str, own: dict[str, Any], names: Sequence[str]) -> str:
    return ", ".join([method, *(f"{name}={own[name]}" for name in names)])


def _same_name(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether method and encoder do not tell them apart."""
    return all(one.get(name) == other.get(name) for name in ("method", "encoder"))


def _fewest(
    own: dict[str, Any], rivals: Sequence[dict[str, Any]], telling: Sequence[str]
) -> list[str]:
    """Some settings in which one group differs from each of the others that are named like it.

    The steps come first: many others are chosen by them.
    """
    chosen: list[str] = []
    left, names = list(rivals), sorted(telling, key=lambda name: name != "steps")
    while left:
        best = max(names, key=lambda name: sum(other.get(name) != own[name] for other in left))
        chosen.append(best)
        left = [other for other in left if other.get(best) == own[best]]
    return chosen
