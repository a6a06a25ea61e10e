"""The page of a folder of runs, which leads to a page for each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from resel.analysis.paper import PaperNumber
from resel.analysis.runs import RunRecord
from resel.reports.cells import Cell, Html, Shown, clock, duration, moment, number, share
from resel.reports.collection import Collection, Experiment
from resel.reports.comparison import study_parts
from resel.reports.elements import code, fold, link, paragraph, status, table
from resel.reports.facts import (
    changed_settings,
    event_rows,
    experiment_block,
    machine_table,
    table_text,
)
from resel.reports.figures import file_name, own_names
from resel.reports.outcomes import outcome_parts, overview
from resel.reports.overview import overview_parts
from resel.reports.page import Page, Part, Section
from resel.reports.run_page import run_page
from resel.reports.studies import Study, studies


def folder_page(name: str, found: Collection, paper: list[PaperNumber]) -> Page:
    """All runs of a folder, task by task."""
    compared = [(_heading(study, found), study) for study in studies(found)]
    names = own_names(f"run-{file_name(run.name)}" for run in found.runs)
    links = {run.name: link(place, run.name) for run, place in zip(found.runs, names, strict=True)}
    events = _event_rows(found.runs, links)
    first = overview_parts(found, compared, len(events))
    sections = [Section("Overview", [*first, *_experiments(found.experiments)])]
    for experiment in found.experiments:
        if parts := outcome_parts(experiment):
            sections.append(Section(experiment.title, parts))
    for heading, study in compared:
        sections.append(Section(heading, study_parts(heading, study, paper)))
    if found.runs:  # experiments about time have none
        sections.append(Section("Runs", [_run_table(found.runs, compared, links)]))
    if events:
        sections.append(
            Section("Events", [table(("run", "step", "event", "what was said"), events)])
        )
    if found.failures:
        sections.append(Section("Not read", [_failures(found)]))
    if found.runs:
        sections.append(Section("Settings", _settings([study for _, study in compared])))
        sections.append(Section("Machines", [machine_table(found.runs)]))
    pages = {p: run_page(run, films=False) for p, run in zip(names, found.runs, strict=True)}
    return Page(_title(found), _subtitle(name, found), sections, pages)


def _subtitle(name: str, found: Collection) -> str:
    """The folder, and how much work is in it."""
    words = [f"Folder {name}"]
    seconds = duration(sum(run.seconds or 0.0 for run in found.runs))
    if found.runs and seconds is not None:
        words.append(f"{seconds.text} of training")
    starts = sorted(run.starts[0].at for run in found.runs if run.starts)
    if starts:
        first, last = (moment(when).text for when in (starts[0], starts[-1]))
        words.append(f"started {first}" + (f" to {last}" if last != first else ""))
    return ", ".join(words)


def _experiments(experiments: list[Experiment]) -> list[Html]:
    blocks = [experiment_block(experiment) for experiment in experiments]
    if not blocks:
        return []
    if len(blocks) > 1:
        return [overview(experiments), fold("How each was made", *blocks)]
    command = experiments[0].data.get("command")
    shown = [code(str(command))] if command else []
    return [*shown, fold("How it was made", *blocks)]


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


def _run_table(
    runs: Sequence[RunRecord],
    compared: Sequence[tuple[str, Study]],
    links: Mapping[str, Html],
) -> Html:
    labels: dict[str, dict[str, None]] = {}
    for group in (group for _, study in compared for group in study.groups):
        for run in group.runs:
            labels.setdefault(run.name, {})[group.label] = None
    tasks = {run.config.task for run in runs}
    rows: list[list[Cell]] = [
        [
            links[run.name],
            status(run.status),
            run.final_return,
            share(run.success_rate),
            run.config.task if len(tasks) > 1 else None,
            " / ".join(labels[run.name]),
            run.seed,
            _steps(run),
            clock(run.seconds),
            run.updates_per_second,
            moment(run.starts[0].at) if run.starts else None,
        ]
        for run in runs
    ]
    heads = ("run", "status", "final return", "success", "task", "label", "seed", "steps", "time")
    return table((*heads, "updates per second", "started"), rows)


def _steps(run: RunRecord) -> Shown:
    wanted = run.config.training.steps
    of = "" if run.steps >= wanted else f" of {wanted:,}"
    return Shown(run.steps, number(run.steps) + of)


def _event_rows(runs: Sequence[RunRecord], links: Mapping[str, Html]) -> list[list[Cell]]:
    return [[links[run.name], *row] for run in runs for row in event_rows(run)]


def _settings(compared: Sequence[Study]) -> list[Part]:
    """What was chosen for all methods in a sentence, and what for each in a table."""
    # A method may appear in several experiments.
    every = {(g.task, g.label): g.runs[0].config for study in compared for g in study.groups}
    changed = {
        key: {name: str(value) for name, (value, _) in changed_settings(config).items()}
        for key, config in every.items()
    }
    common = set.intersection(*(set(chosen.items()) for chosen in changed.values()))
    alike = dict(common)
    rows: list[list[Cell]] = []
    for (task, label), chosen in changed.items():
        own = {name: value for name, value in chosen.items() if name not in alike}
        if own:
            rows.append([task, label, table_text(_words(own))])
    if not alike and not rows:
        return [paragraph("All settings are the task's own.")]
    other = "settings that are not the task's own"
    parts: list[Part] = []
    if alike:
        parts.append(paragraph(f"In all runs, {other}: {_words(alike)}."))
    if rows:
        parts.append(table(("task", "label", "and beside these" if alike else other), rows))
    return parts


def _words(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={settings[name]}" for name in sorted(settings))


def _failures(found: Collection) -> Html:
    rows: list[list[Cell]] = [[fault.name, table_text(fault.reason)] for fault in found.failures]
    return table(("folder", "reason"), rows)
