"""The first screen of a folder's page: what won, by how much, what is done, what failed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from resel.analysis.runs import RunRecord
from resel.analysis.statistics import mean_and_error
from resel.reports.cells import Cell, Html, Measured
from resel.reports.collection import Collection
from resel.reports.elements import paragraph, status, status_kind, table, verdict
from resel.reports.studies import Study, ranked


def overview_parts(
    found: Collection, compared: Sequence[tuple[str, Study]], events: int
) -> list[Html]:
    """How the runs stand, and the best of each task; `compared` has a heading for each study."""
    if not found.runs:
        return [verdict(_states(found), "")] if found.failures else []
    words = f"Events: {events}, listed below." if events else "Nothing failed."
    parts = [verdict(_states(found), words)]
    rows = [_best(heading, study) for heading, study in compared]
    heads = ("task", "best", "final return ± standard error", "ahead by", "of", "finished")
    parts.append(table(heads, rows, first=len(heads)))
    if any(row[3] is not None for row in rows):
        parts.append(
            paragraph(
                "Ahead by: the difference of the two means, ± its standard error over runs. A "
                "lead that is no larger than that is none, and a single seed shows none either.",
                "note",
            )
        )
    return parts


def _states(found: Collection) -> list[Html]:
    count: dict[str, int] = {}
    for run in found.runs:
        count[run.status] = count.get(run.status, 0) + 1
    states = [status(f"{count[name]} {name}", status_kind(name)) for name in sorted(count)]
    if found.failures:
        states.append(status(f"{len(found.failures)} not read", "bad"))
    return states


def _best(heading: str, study: Study) -> list[Cell]:
    first, *others = ranked(study.groups)
    runs = [run for group in study.groups for run in group.runs]
    if others and (words := _undecided(runs)):
        return [heading, words, None, None, None, _finished(runs)]
    mean, error = mean_and_error(first.scores)
    row: list[Cell] = [heading, first.label, None, None, None, _finished(runs)]
    if math.isnan(mean):
        row[1] = None
        return row
    row[2] = Measured(mean, error)
    if others and others[0].scores:
        second, its_error = mean_and_error(others[0].scores)
        lead, spread = mean - second, math.hypot(error, its_error)
        row[3], row[4] = Measured(lead, spread), others[0].label
        if math.isnan(spread):
            row[1] = f"{first.label}, of a single seed"
        elif lead <= spread:
            row[1] = f"no lead to speak of: {first.label}"
    return row


def _undecided(runs: Sequence[RunRecord]) -> str:
    """Why there is no best one yet, if a run may still go on."""
    unfinished = [run for run in runs if status_kind(run.status) == "open"]
    running = sum(run.is_running for run in unfinished)
    what = f"{running} still running" if running else f"{len(unfinished)} not finished"
    return f"not decided: {what}" if unfinished else ""


def _finished(runs: Sequence[RunRecord]) -> Html:
    states, done = [run.status for run in runs], sum(run.has_ended for run in runs)
    bad = [state for state in states if status_kind(state) == "bad"]
    words = f"{done} of {len(states)}" + (f", {len(bad)} failed" if bad else "")
    return status(words, "bad" if bad else "good" if done == len(states) else "open")
