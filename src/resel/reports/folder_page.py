"""The page of a folder of runs: methods against each other and against the paper."""

from __future__ import annotations

import math
from collections.abc import Sequence

from resel.analysis.paper import PaperNumber, numbers_for
from resel.analysis.plots import EVALUATED
from resel.analysis.runs import RunRecord
from resel.analysis.statistics import (
    band,
    interquartile_band,
    interquartile_estimate,
    mean_and_error,
    mean_band,
)
from resel.reports.collection import Collection, Experiment
from resel.reports.elements import (
    Cell,
    Html,
    duration,
    fold,
    paragraph,
    table,
    tiles,
    with_error,
    with_interval,
)
from resel.reports.facts import (
    all_settings,
    changed_settings,
    event_rows,
    experiment_block,
    machine_table,
    table_text,
)
from resel.reports.figures import Figure, Line, file_name
from resel.reports.outcomes import outcome_parts, overview
from resel.reports.page import Page, Section
from resel.reports.studies import Group, Study, studies

_MEAN, _QUARTILES, _RUNS = "mean ± standard error", "interquartile mean", "single runs"
_FEWEST_FOR_QUARTILES = 4  # below, nothing is cut off and it is the mean again
_MEASURES = (
    ("return_mean", "return", "Evaluation return", EVALUATED),
    ("success_rate", "success", "Success rate", "share of episodes (0 to 1)"),
)


def folder_page(name: str, found: Collection, paper: list[PaperNumber]) -> Page:
    """All runs of a folder, task by task."""
    compared = studies(found)
    sections = [Section("Overview", [_tiles(found), *_experiments(found.experiments)])]
    for experiment in found.experiments:
        if parts := outcome_parts(experiment):
            sections.append(Section(experiment.title, parts))
    for study in compared:
        heading = _heading(study, found)
        sections.append(Section(heading, _study(heading, study, paper)))
    if found.runs:  # experiments about time have none
        sections += [
            Section("Runs and timing", [_run_table(found.runs, compared)]),
            Section("Divergences and events", [_events(found.runs)]),
            Section("Settings", _settings(compared)),
            Section("Machines", [machine_table(found.runs)]),
        ]
    if found.failures:
        sections.append(Section("Not read", [_failures(found)]))
    return Page(_title(found), f"Folder {name}", sections)


def _experiments(experiments: list[Experiment]) -> list[Html]:
    blocks = [experiment_block(experiment) for experiment in experiments]
    if len(blocks) < 2:
        return blocks
    return [overview(experiments), fold("How each was made", *blocks)]


def _title(found: Collection) -> str:
    if len(found.experiments) == 1:
        return found.experiments[0].title
    if not found.runs:
        return f"{len(found.experiments)} experiments"
    tasks = sorted({run.config.task for run in found.runs})
    runs = "1 run" if len(found.runs) == 1 else f"{len(found.runs)} runs"
    if len(tasks) > 1:
        return f"{runs} of {len(tasks)} tasks"
    return f"{tasks[0] or 'An environment of the caller'}: {runs}"


def _heading(study: Study, found: Collection) -> str:
    task = study.task or "Environments of the caller"
    return f"{study.title}: {task}" if study.title and len(found.experiments) > 1 else task


def _tiles(found: Collection) -> Html:
    status: dict[str, int] = {}
    for run in found.runs:
        status[run.status] = status.get(run.status, 0) + 1
    hours = sum(run.seconds or 0.0 for run in found.runs)
    facts: list[tuple[str, Cell]] = [("runs", len(found.runs)), *sorted(status.items())]
    if found.failures:
        facts.append(("not read", len(found.failures)))
    return tiles([*facts, ("time in all", duration(hours))])


def _study(heading: str, study: Study, paper: list[PaperNumber]) -> list[Html | tuple[Figure, ...]]:
    groups, known = study.groups, numbers_for(study.task, paper)
    figures = [_curves(heading, groups, known, *measure) for measure in _MEASURES]
    parts: list[Html | tuple[Figure, ...]] = [tuple(f for f in figures if f is not None)]
    parts.append(_beside_paper(groups, known))
    mixed = [group.label for group in groups if not group.same_settings]
    if mixed:
        parts.append(
            paragraph(f"Runs with different settings share a label: {', '.join(mixed)}.", "note")
        )
    if paper and not known:
        parts.append(paragraph("The paper reports no number for this task.", "note"))
    if known and any(run.steps < (known[0].step or 0) for g in groups for run in g.runs):
        parts.append(
            paragraph("Mind the steps: a shorter run is no test of the paper's number.", "note")
        )
    return parts


def _curves(
    heading: str,
    groups: list[Group],
    known: list[PaperNumber],
    key: str,
    name: str,
    title: str,
    y: str,
) -> Figure | None:
    lines = [line for i, group in enumerate(groups) for line in _group_lines(i, group, groups, key)]
    if not lines:
        return None
    if key == "return_mean":
        lines += _references(known, max(run.steps for group in groups for run in group.runs))
    note = "Means over the evaluation episodes of the deterministic policy. "
    largest = _largest(groups)
    if largest == 1:
        note += "One run for each label."
    else:
        note += (
            "Shaded: one standard error over the runs of a label to either side. Between two "
            "evaluations of a run the straight line counts; the hover text says how many runs have "
            "got that far."
        )
    if largest >= _FEWEST_FOR_QUARTILES:
        note += " The interquartile mean is shaded from the lower to the upper quartile."
    return Figure(file_name(f"{heading}-{name}"), f"{title}, {heading}", y, lines, note)


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
    """Our methods, marked, above every method the paper reports on the task."""
    rows: list[list[Cell]] = []
    for group in groups:
        mean, error = mean_and_error(group.scores)
        middle = interquartile_estimate([group.scores])
        success = [run.success_rate for run in group.runs if run.success_rate is not None]
        rate = mean_and_error(success)[0]
        rows.append(
            [
                group.label,
                None if math.isnan(mean) else with_error(mean, error),
                with_interval(*middle) if len(group.scores) > 1 else None,
                f"{rate:.0%}" if success else None,
                max(run.steps for run in group.runs),
                _seeds([run.seed for run in group.runs]),
                sum(run.status != "completed" for run in group.runs),
                "here",
            ]
        )
    for number in known:
        error = math.nan if number.error is None else number.error
        shown = with_error(number.mean, error)
        rows.append([number.method, shown, None, None, number.step, None, None, number.table])
    heads = ("method", "final return ± standard error", "interquartile mean [95 %]", "success")
    marked = range(len(groups) if known else 0)
    return table((*heads, "steps", "which seeds", "unfinished runs", "source"), rows, marked)


def _seeds(seeds: Sequence[int]) -> str:
    """All of them; three and more in a row as first–last."""
    ordered = sorted(seeds)
    if len(ordered) > 2 and ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"{ordered[0]}–{ordered[-1]}"
    return ", ".join(map(str, ordered))


def _run_table(runs: Sequence[RunRecord], compared: Sequence[Study]) -> Html:
    labels: dict[str, dict[str, None]] = {}
    for group in (group for study in compared for group in study.groups):
        for run in group.runs:
            labels.setdefault(run.name, {})[group.label] = None
    heads = ("run", "task", "label", "seed", "status", "steps", "asked for", "final return")
    rows: list[list[Cell]] = [
        [
            run.name,
            run.config.task,
            " / ".join(labels[run.name]),
            run.seed,
            run.status,
            run.steps,
            run.config.training.steps,
            run.final_return,
            run.success_rate,
            duration(run.seconds),
            run.updates_per_second,
        ]
        for run in runs
    ]
    return table((*heads, "success", "time", "updates per second"), rows)


def _events(runs: Sequence[RunRecord]) -> Html:
    rows: list[list[Cell]] = [[run.name, *row] for run in runs for row in event_rows(run)]
    if not rows:
        return paragraph("None: no environment failed and every number was finite.")
    return table(("run", "step", "event", "what was said"), rows)


def _settings(compared: Sequence[Study]) -> list[Html | tuple[Figure, ...]]:
    # A method may appear in several experiments.
    every = {(g.task, g.label): g.runs[0].config for study in compared for g in study.groups}
    rows: list[list[Cell]] = []
    for (task, label), config in every.items():
        changed = changed_settings(config)
        words = ", ".join(f"{name}={value}" for name, (value, _) in changed.items())
        rows.append([task, label, table_text(words or "none")])
    folds = [all_settings(config, f"{task}, {label}") for (task, label), config in every.items()]
    heads = ("task", "label", "settings that are not the task's own")
    return [table(heads, rows), fold("All settings", *folds)]


def _failures(found: Collection) -> Html:
    rows: list[list[Cell]] = [[fault.name, table_text(fault.reason)] for fault in found.failures]
    return table(("folder", "reason"), rows)
