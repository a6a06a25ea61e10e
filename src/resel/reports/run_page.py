"""The page of one run."""

from __future__ import annotations

import base64
import shlex
from pathlib import Path

from resel.analysis.runs import RunRecord
from resel.reports.cells import Cell, Html, duration, escape, moment, share
from resel.reports.diagnosis import diagnosis_sections
from resel.reports.elements import beside, code, fold, paragraph, status, table, tiles, verdict
from resel.reports.facts import (
    all_settings,
    changed_settings,
    changed_table,
    event_rows,
    machine_facts,
    machine_words,
    parameter_groups,
)
from resel.reports.page import Page, Part, Section
from resel.reports.run_figures import data_parts, evaluation_parts, learning_parts
from resel.runs import format_bytes

LARGEST_FILM = 4 * 2**20
"""Bytes of a film that is still put into the page."""

_FILMS = {".mp4": "video/mp4", ".gif": "image/gif"}


def run_page(run: RunRecord, films: bool = True) -> Page:
    """Everything one run tells; its films only where it is alone."""
    events = event_rows(run)
    sections = [
        Section("Result", [*_result(run, len(events)), *_film(run.path, films)]),
        Section("Evaluation", evaluation_parts(run)),
        *([Section("Events", [table(("step", "event", "what was said"), events)])] * bool(events)),
        *diagnosis_sections(run),
        Section("Learning", learning_parts(run)),
        Section("Data and speed", data_parts(run)),
        Section("How it was made", _how(run)),
    ]
    title = f"{run.config.task or 'an environment of the caller'}: {run.label}"
    started = [f"started {moment(start.at).text}" for start in run.starts[:1]]
    return Page(title, ", ".join([f"Run {run.path.name}", *started]), sections)


def _result(run: RunRecord, events: int) -> list[Html]:
    commands = [code(start.command) for start in run.starts[:1]]
    return [_verdict(run, events), _tiles(run), *commands]


def _verdict(run: RunRecord, events: int) -> Html:
    words = "No environment failed and every number was finite."
    if reason := run.result.get("stopped_because"):
        words = f"It stopped because {reason}. {words}"
    if events:
        fault = run.result.get("fault")
        count = "one event" if events == 1 else f"{events} events"
        words = f"{fault or 'It did not go smoothly.'} See {count} below."
    return verdict([status(run.status)], words)


def _tiles(run: RunRecord) -> Html:
    steps, returns = run.points("eval", "return_mean")
    finite = [(value, step) for step, value in zip(steps, returns, strict=True) if value == value]
    facts: list[tuple[str, Cell]] = [
        ("final return, mean of the last evaluations (at most five)", run.final_return)
    ]
    if finite:
        value, step = max(finite)
        facts.append((f"best evaluation, at step {step:,}", value))
        facts.append((f"first evaluation, at step {finite[0][1]:,}", finite[0][0]))
    if run.success_rate is not None:
        facts.append(("success in the last evaluation", share(run.success_rate)))
    if run.adaptation_steps is not None:
        facts.append(("steps of adapting in the last evaluation", run.adaptation_steps))
    wanted = run.config.training.steps
    facts.append(("steps" if run.steps >= wanted else f"of {wanted:,} steps", run.steps))
    facts.append(("time", duration(run.seconds)))
    if "updates" in run.result:
        facts.append(("updates", run.result["updates"]))
    return tiles(facts)


def _how(run: RunRecord) -> list[Part]:
    parts: list[Part] = []
    if again := run.starts[1:]:
        rows = [(moment(start.at), start.command) for start in again]
        parts.append(fold(f"Continued ({len(again)})", table(("when", "command"), rows)))
    tables = [block for block in (parameter_groups(run),) if block is not None]
    if changed_settings(run.config):
        tables.insert(0, changed_table(run.config))
    else:
        parts.append(paragraph("All settings are the task's own."))
    parts.append(beside(*tables))
    parts.append(paragraph(machine_words(run)))
    parts.append(all_settings(run.config, "All settings"))
    return [*parts, fold("Machine and versions", machine_facts(run))]


def _film(folder: Path, inside: bool) -> list[Html]:
    """The films in a run directory, those that are small enough inside the page."""
    parts = []
    films = (p for p in folder.iterdir() if p.suffix.lower() in _FILMS and p.is_file())
    for path in sorted(films):
        size = path.stat().st_size
        if not inside:
            own = shlex.join(["resel", "report", str(folder)])
            parts.append(paragraph(f"Film {path.name}: {own} shows it.", "note"))
            continue
        if size > LARGEST_FILM:
            too_large = f"{format_bytes(size)}, too large for this page."
            parts.append(paragraph(f"Film {path.name}: {too_large}"))
            continue
        data = base64.b64encode(path.read_bytes()).decode()
        source = f"data:{_FILMS[path.suffix.lower()]};base64,{data}"
        tag = (
            f'<video controls muted loop playsinline src="{source}"></video>'
            if path.suffix.lower() == ".mp4"
            else f'<img alt="Film of the agent" src="{source}">'
        )
        caption = f"<figcaption>{escape(path.name)}</figcaption>"
        parts.append(Html(f'<figure class="film">{tag}{caption}</figure>\n'))
    return parts
