"""What a method had that others had not: rewards to read, what it was told, steps to adapt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from resel.analysis.runs import points
from resel.experiments._settings import Setting
from resel.experiments.outcomes._markdown import count
from resel.experiments.outcomes._reading import RunData
from resel.methods import get_method, reads_rewards

FAIRNESS = (
    "Who reads rewards is given the last one beside what is seen, which may tell what is hidden. "
    "Told is what a method learns from beside what the agent sees: entries of a reset's info, "
    "which no policy reads. Adaptation steps are those it played in tasks of its last evaluation "
    "before the episodes that count; they are no part of its steps."
)
"""What the columns mean."""
PRIVILEGES = ("reads rewards", "told", "adaptation steps")
"""Their heads on a page."""
PRIVILEGE_COLUMNS = ("reads_rewards", "told", "adaptation_steps")
"""The same in a file."""


def privileges_of(runs: Sequence[RunData]) -> dict[str, Any]:
    """What the runs of one method had."""
    setting = runs[0].member.setting
    reads = reads_rewards(setting.config(runs[0].member.seed))
    cells = ("yes" if reads else "", told(setting), adaptation_steps(runs))
    return dict(zip(PRIVILEGE_COLUMNS, cells, strict=True))


def privileges(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """The cells of a page."""
    reads, told, steps = (row.get(name) for name in PRIVILEGE_COLUMNS)
    return reads or "-", told or "-", "-" if steps is None else count(steps)


def told(setting: Setting) -> str:
    """What its method learns from that the agent cannot see; empty if there is nothing."""
    names = list(get_method(setting.method_name).learner.learns_from)
    critics = setting.overrides.get("critic_observations")
    return ", ".join(names + ([f"critics: {critics}"] if critics else []))


def adaptation_steps(runs: Sequence[RunData]) -> int | None:
    """The most steps that one of them took to adapt in its last evaluation, if they do."""
    last = [found[-1] for r in runs if (found := points(r.lines, "eval", "adaptation_steps")[1])]
    return int(max(last)) if last else None
