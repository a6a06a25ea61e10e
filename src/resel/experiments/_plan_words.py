"""What a plan says of itself: a line for each part, and what is left in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.markup import escape
from rich.table import Table

from resel.experiments.engines import read_state
from resel.experiments.plan import Job, Plan
from resel.training import duration

if TYPE_CHECKING:
    from resel.experiments.reproduce import Sweep


def plan_table(sweep: Sweep, plan: Plan, left: Sequence[Job]) -> Table:
    """What is about to happen: by experiment, or by line of the figure where there is one."""
    title = f"Plan{sweep.at_scale} in {sweep.out}"
    alone = sweep.experiments[0].name if len(sweep.experiments) == 1 else None
    table = Table(alone or "experiment", title=title, title_justify="left", box=None)
    for column in ("runs", "of them done", "steps", "steps of evaluations left", "time left"):
        table.add_column(column, justify="right")
    jobs, open_runs = {job.run: job for job in plan.jobs}, {job.run for job in left}
    parts: dict[str, dict[Path, Job]] = {} if alone else {e.name: {} for e in sweep.experiments}
    for experiment in sweep.experiments:
        for member in plan.members[experiment.name]:
            name = member.setting.group if alone else experiment.name
            parts.setdefault(name, {})[member.run] = jobs[member.run]
    rows = [(escape(name), list(own.values())) for name, own in parts.items()]
    for name, own in [*rows, ("[bold]all, each run once[/bold]", list(plan.jobs))]:
        waiting = [job for job in own if job.run in open_runs]
        time = _time(waiting) if own else "measures time itself"
        counts = (len(own), len(own) - len(waiting), sum(job.steps for job in own))
        table.add_row(name, *(f"{n:,}" for n in counts), _judged(waiting), time)
    return table


def plan_summary(left: Sequence[Job], slots: int) -> str:
    """What the jobs that are left take."""
    if not left:
        return "No run is left to be trained."
    steps = sum(job.steps - _saved(job) for job in left)
    side = min(slots, len(left))
    memory = sum(sorted((job.memory for job in left), reverse=True)[:slots])
    together = f", or {_time(left, side)} with {side} runs side by side" if side > 1 else ""
    guessed = any(job.estimated for job in left)
    how = "" if guessed else "as measured on this machine "
    note = " ~ is an estimate, and may be off by a factor of three: --measure-again measures it."
    return (
        f"Left: {len(left)} {'runs' if len(left) > 1 else 'run'}, {steps:,} steps, and of "
        f"evaluations {_judged(left)}; {how}updates and acting take {_time(left)}{together} "
        f"(simulators come on top, and a busy machine takes longer). "
        f"Memory {'~' if guessed else ''}{memory / 1e9:.1f} GB, "
        f"disk {sum(job.disk for job in left) / 1e9:.1f} GB.{note if guessed else ''}"
    )


def _time(jobs: Sequence[Job], side: int = 1) -> str:
    """What updates and acting take, marked if that was not measured."""
    mark = "~" if any(job.estimated for job in jobs) else ""
    return mark + duration(_left(jobs, "seconds") / side)


def _saved(job: Job) -> int:
    return min(read_state(job).saved, job.steps)


def _left(jobs: Sequence[Job], what: Literal["seconds", "evaluation"]) -> float:
    """How much of it jobs still need."""
    return sum((getattr(job, what) or 0) * (1 - _saved(job) / job.steps) for job in jobs)


def _judged(jobs: Sequence[Job]) -> str:
    """How many steps of evaluations jobs still take; episodes may end earlier than they must."""
    if any(job.evaluation is None for job in jobs):
        return "an unknown number"
    steps = round(_left(jobs, "evaluation"))
    return f"at most {steps:,}" if steps else "0"
