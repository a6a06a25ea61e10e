"""What a method had that others had not: what it was told, and steps to adapt to a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from resel.analysis.runs import points
from resel.experiments._settings import Setting
from resel.experiments.outcomes._markdown import count
from resel.experiments.outcomes._reading import RunData
from resel.methods import get_method

FAIRNESS = (
    "Told is what a method learns from beside what the agent sees: entries of a reset's info, "
    "which no policy reads. Adaptation steps are those it played in tasks of its last evaluation "
    "before the episodes that count; they are no part of its steps."
)
"""What the two columns mean."""
PRIVILEGES = ("told", "adaptation steps")
"""Their heads on a page."""


def privileges(row: Mapping[str, Any]) -> tuple[str, str]:
    """Both cells of a page."""
    steps = row.get("adaptation_steps")
    return row.get("told") or "-", "-" if steps is None else count(steps)


def told(setting: Setting) -> str:
    """What its method learns from that the agent cannot see; empty if there is nothing."""
    names = list(get_method(setting.method_name).learner.learns_from)
    critics = setting.overrides.get("critic_observations")
    return ", ".join(names + ([f"critics: {critics}"] if critics else []))


def adaptation_steps(runs: Sequence[RunData]) -> int | None:
    """The most steps that one of them took to adapt in its last evaluation, if they do."""
    last = [found[-1] for r in runs if (found := points(r.lines, "eval", "adaptation_steps")[1])]
    return int(max(last)) if last else None
