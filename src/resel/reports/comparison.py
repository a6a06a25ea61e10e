"""Methods on one task against each other and against the paper: curves and a table."""

from __future__ import annotations

import math
from collections.abc import Sequence

from resel.analysis.paper import PaperNumber, numbers_for
from resel.analysis.plots import EVALUATED
from resel.analysis.statistics import (
    band,
    interquartile_band,
    interquartile_estimate,
    mean_and_error,
    mean_band,
)
from resel.reports.cells import Cell, Html, share, with_error, with_interval
from resel.reports.elements import paragraph, table
from resel.reports.figures import Figure, Line, file_name
from resel.reports.page import Part
from resel.reports.run_figures import SHARE, SHARE_RANGE
from resel.reports.studies import Group, Study, ranked

_MEAN, _QUARTILES, _RUNS = "mean ± standard error", "interquartile mean", "single runs"
_FEWEST_FOR_QUARTILES = 4  # below, nothing is cut off and it is the mean again


def study_parts(heading: str, study: Study, paper: list[PaperNumber]) -> list[Part]:
    """The curves of a study, its table, and what is to be minded about them."""
    groups, known = study.groups, numbers_for(study.task, paper)
    figures = [_returns(heading, groups, known), _success(heading, groups)]
    parts: list[Part] = [tuple(figure for figure in figures if figure.lines)]
    parts = [*([parts[0]] if parts[0] else []), _beside_paper(groups, known)]
    mixed = [group.label for group in groups if not group.same_settings]
    if mixed:
        parts.append(
            paragraph(f"Runs with different settings share a label: {', '.join(mixed)}.", "note")
        )
    if running := [group.label for group in groups if any(run.is_running for run in group.runs)]:
        parts.append(
            paragraph(f"Still running, with its numbers so far: {'; '.join(running)}.", "note")
        )
    if paper and not known:
        parts.append(paragraph("The paper reports no number for this task.", "note"))
    if known and any(run.steps < (known[0].step or 0) for g in groups for run in g.runs):
        parts.append(
            paragraph("Mind the steps: a shorter run is no test of the paper's number.", "note")
        )
    return parts


def _returns(heading: str, groups: list[Group], known: list[PaperNumber]) -> Figure:
    lines = _lines(groups, "return_mean")
    if lines:
        lines += _references(known, max(run.steps for group in groups for run in group.runs))
    name, title = file_name(f"{heading}-return"), f"Evaluation return, {heading}"
    return Figure(name, title, EVALUATED, lines, _note(groups), fit=True)


def _success(heading: str, groups: list[Group]) -> Figure:
    name, title = file_name(f"{heading}-success"), f"Success rate, {heading}"
    return Figure(name, title, SHARE, _lines(groups, "success_rate"), y_range=SHARE_RANGE)


def _note(groups: list[Group]) -> str:
    note = "Means over the evaluation episodes of the deterministic policy. "
    largest = _largest(groups)
    if largest == 1:
        return note + "One run for each label."
    note += (
        "Shaded: one standard error over the runs of a label to either side. Between two "
        "evaluations of a run the straight line counts; the hover text says how many runs have "
        "got that far."
    )
    if largest >= _FEWEST_FOR_QUARTILES:
        note += " The interquartile mean is shaded from the lower to the upper quartile."
    return note


def _lines(groups: list[Group], key: str) -> list[Line]:
    return [line for i, group in enumerate(groups) for line in _group_lines(i, group, groups, key)]


def _group_lines(index: int, group: Group, groups: list[Group], key: str) -> list[Line]:
    """The lines of one label: summaries where any label has several runs, and single runs."""
    curves = [run.points("eval", key) for run in group.runs]
    if not any(steps for steps, _ in curves):
        return []
    largest = _largest(groups)
    if largest == 1:
        return [Line(f"{group.label}, seed {group.runs[0].seed}", *curves[0], group=index)]
    views = [(_MEAN, mean_band)]
    if largest >= _FEWEST_FOR_QUARTILES:
        views.append((_QUARTILES, interquartile_band))
    lines = []
    for view, summary in views:
        over = band(curves, summary)
        edges = (over.low, over.high)
        lines.append(Line(group.label, over.steps, over.middle, *edges, over.counts, index, view))
    for run, curve in zip(group.runs, curves, strict=True):
        lines.append(Line(f"{group.label}: {run.name}", *curve, group=index, view=_RUNS))
    return lines


def _largest(groups: list[Group]) -> int:
    return max(len(group.runs) for group in groups)


def _references(known: list[PaperNumber], last_step: int) -> list[Line]:
    ours = [number for number in known if number.method.startswith("RESeL")]
    return [
        Line(
            f"reported: {number.method}{_after(number)}",
            [0, last_step],
            [number.mean, number.mean],
            group=index,
            reference=True,
        )
        for index, number in enumerate(ours)
    ]


def _after(number: PaperNumber) -> str:
    return "" if number.step is None else f" after {number.step:,} steps"


def _beside_paper(groups: list[Group], known: list[PaperNumber]) -> Html:
    """Our methods, the best first, marked, above every method the paper reports on the task."""
    rows: list[list[Cell]] = [
        [*_scores(group), None if not known else "here"] for group in ranked(groups)
    ]
    for number in known:
        error = math.nan if number.error is None else number.error
        shown = with_error(number.mean, error)
        rows.append([number.method, shown, None, None, None, number.step, None, number.table])
    heads = ("method", "final return ± standard error", "success", "which seeds")
    more = ("unfinished runs", "steps", "interquartile mean [95 %]", "source")
    return table((*heads, *more), rows, range(len(groups) if known else 0))


def _scores(group: Group) -> list[Cell]:
    mean, error = mean_and_error(group.scores)
    middle = interquartile_estimate([group.scores])
    success = [run.success_rate for run in group.runs if run.success_rate is not None]
    return [
        group.label,
        None if math.isnan(mean) else with_error(mean, error),
        share(mean_and_error(success)[0]) if success else None,
        _seeds([run.seed for run in group.runs]),
        sum(not run.has_ended for run in group.runs) or None,
        max(run.steps for run in group.runs),
        with_interval(*middle) if len(group.scores) > 1 else None,
    ]


def _seeds(seeds: Sequence[int]) -> str:
    """All of them; three and more in a row as first–last."""
    ordered = sorted(seeds)
    if len(ordered) > 2 and ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"{ordered[0]}–{ordered[-1]}"
    return ", ".join(map(str, ordered))
