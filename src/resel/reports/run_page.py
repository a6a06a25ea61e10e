"""The page of one run."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from resel.analysis.plots import EVALUATED, around
from resel.analysis.runs import RunRecord
from resel.reports.elements import Cell, Html, code, duration, escape, paragraph, table, tiles
from resel.reports.facts import (
    all_settings,
    changed_settings,
    changed_table,
    event_rows,
    machine_facts,
    parameter_groups,
)
from resel.reports.figures import Figure, Line, file_name
from resel.reports.outcomes import amplification_parts, picture, read_or_say
from resel.reports.page import Page, Section
from resel.runs import format_bytes

LARGEST_FILM = 4 * 2**20
"""Bytes of a film that is still put into the page."""

_FILMS = {".mp4": "video/mp4", ".gif": "image/gif"}
_GRADIENTS = "gradient_norm/"
_EPISODE_RETURN = "episode_return"
_KNOWN: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("critic-loss", "Critic loss", ("critic_loss",), "loss"),
    ("policy-loss", "Policy loss", ("policy_loss",), "loss"),
    ("q-values", "Q values of the batch", ("q_mean", "target_mean"), "value, in scaled reward"),
    ("entropy", "Entropy of the policy", ("entropy",), "entropy (nats)"),
    ("alpha", "Temperature", ("alpha",), "alpha (reward per nat)"),
    (
        "context",
        "Context of the policy",
        ("context_norm", "context_std", "context_deviation"),  # the last as it was called once
        "mean length; standard deviation of an entry",
    ),
)
"""File name, title, recorded numbers and axis title of the figures every run has."""
_UNITS = {
    "episodes": "episodes",
    "batch_steps": "steps",
    "buffer_steps": "steps",
    "padding_share": "share (0 to 1)",
}


def run_page(run: RunRecord) -> Page:
    """Everything one run tells."""
    learning, other, timing = _learning_figures(run), _other_figures(run), _timing_figures(run)
    sections = [
        Section("Result", [_tiles(run), *_film(run.path)]),
        Section("Evaluation", [_evaluation_figures(run) or paragraph("There was none yet.")]),
        Section("What was run", _what(run)),
        Section("Learning", [learning or paragraph("Learning had not begun.")]),
        Section("Amplification", _amplification(run.path)),
        Section("Batches and buffer", [other or paragraph("Nothing was recorded.")]),
        Section("Timing", [timing or paragraph("Nothing was timed yet.")]),
        Section("Events", [_events(run)]),
    ]
    title = f"{run.config.task or 'an environment of the caller'}: {run.label}"
    return Page(title, f"Run {run.path.name}, {run.status}", sections)


def _tiles(run: RunRecord) -> Html:
    steps, returns = run.points("eval", "return_mean")
    finite = [(value, step) for step, value in zip(steps, returns, strict=True) if value == value]
    best = max(finite, default=None)
    facts: list[tuple[str, Cell]] = [
        ("status", run.status),
        ("final return, mean of the last evaluations (at most five)", run.final_return),
    ]
    if best is not None:
        facts.append((f"best evaluation, at step {best[1]:,}", best[0]))
    if run.success_rate is not None:
        facts.append(("success in the last evaluation", f"{run.success_rate:.0%}"))
    facts += [("steps", run.steps), ("time", duration(run.seconds))]
    if "updates" in run.result:
        facts.append(("updates", run.result["updates"]))
    return tiles(facts)


def _what(run: RunRecord) -> list[Html]:
    parts = [paragraph(f"Task {run.config.task or '–'}, {run.label}.")]
    if changed_settings(run.config):
        parts += [paragraph("Settings that are not the task's own:"), changed_table(run.config)]
    else:
        parts.append(paragraph("All settings are the task's own."))
    parts.append(all_settings(run.config, "All settings"))
    groups = parameter_groups(run)
    parts += [groups] if groups is not None else []
    return [*parts, machine_facts(run)]


def _evaluation_figures(run: RunRecord) -> tuple[Figure, ...]:
    note = (
        f"Mean over {run.config.training.eval_episodes} episodes of the deterministic policy; "
        "shaded: one standard deviation over these episodes to either side."
    )
    share = "share of episodes (0 to 1)"
    figures = (
        Figure("return", "Evaluation return", EVALUATED, _return_line(run), note),
        Figure("success", "Success rate", share, _lines(run, "eval", ["success_rate"])),
        Figure("length", "Episode length", "length (steps)", _lines(run, "eval", ["length_mean"])),
        Figure(
            "episode-return",
            "Return while training",
            "return (exploring policy)",
            _lines(run, "train", [_EPISODE_RETURN]),
            "Mean of the training episodes since the point before.",
        ),
    )
    return tuple(figure for figure in figures if any(line.x for line in figure.lines))


def _return_line(run: RunRecord) -> list[Line]:
    steps, means = run.points("eval", "return_mean")
    _, stds = run.points("eval", "return_std")
    edges = around(means, stds) if len(stds) == len(means) else (None, None)
    return [Line(run.label, steps, means, *edges)]


def _learning_figures(run: RunRecord) -> tuple[Figure, ...]:
    keys = run.keys("train")
    gradients = [key for key in keys if key.startswith(_GRADIENTS)]
    figures = []
    for name, title, known, unit in _KNOWN:
        here = [key for key in known if key in keys]
        if here:
            figures.append(Figure(name, title, unit, _lines(run, "train", here)))
    if gradients:
        figures.append(
            Figure(
                "gradient-norms",
                "Gradient norm of each parameter group",
                "norm (log scale)",
                _lines(run, "train", gradients, lambda key: key.removeprefix(_GRADIENTS)),
                log_y=True,
            )
        )
    return tuple(figures)


def _other_figures(run: RunRecord) -> tuple[Figure, ...]:
    """Whatever else was recorded while learning, each number in a figure of its own."""
    shown = {key for _, _, known, _ in _KNOWN for key in known} | {_EPISODE_RETURN}
    return tuple(
        Figure(
            file_name(key),
            key.replace("_", " ").capitalize(),
            _UNITS.get(key, key),
            _lines(run, "train", [key]),
        )
        for key in run.keys("train")
        if key not in shown and not key.startswith(_GRADIENTS)
    )


def _amplification(folder: Path) -> list[Html]:
    """What `resel diagnose` has left in the run directory or in a folder below it."""
    parts: list[Html] = []
    for path in sorted([*folder.glob("diagnosis.json"), *folder.glob("*/diagnosis.json")]):
        parts += read_or_say(path, lambda path: _diagnosis(json.loads(path.read_bytes())))
        image = path.with_suffix(".png")
        if image.is_file():
            parts.append(picture(image, "Variation along the episode after one update"))
    if parts:
        return parts
    command = shlex.join(["resel", "diagnose", str(folder), "--out", str(folder / "diagnosis")])
    return [
        paragraph("Not measured. This command does it, and the next report shows it:"),
        code(command),
    ]


def _diagnosis(data: dict[str, Any]) -> list[Html]:
    words = [paragraph(str(text)) for text in data["words"]]
    return [*amplification_parts(data["amplification"]), *words]


def _timing_figures(run: RunRecord) -> tuple[Figure, ...]:
    rates = [key for key in run.keys("timing") if key.endswith("_per_second")]
    figures = []
    if rates:
        lines = _lines(run, "timing", rates, lambda key: key.replace("_", " "))
        figures.append(Figure("speed", "Speed", "per second", lines))
    steps, seconds = run.points("timing", "seconds")
    if steps:
        minutes = [value / 60 for value in seconds]
        figures.append(Figure("time", "Time taken", "minutes", [Line(run.label, steps, minutes)]))
    return tuple(figures)


def _lines(
    run: RunRecord, kind: str, keys: list[str], name: Callable[[str], str] = str
) -> list[Line]:
    """A line for each number; a number that is alone is what the figure is about, so it is named
    after the run."""
    labels = [run.label] if len(keys) == 1 else [name(key) for key in keys]
    return [
        Line(label, *run.points(kind, key), group=index)
        for index, (label, key) in enumerate(zip(labels, keys, strict=True))
    ]


def _events(run: RunRecord) -> Html:
    rows = event_rows(run)
    if not rows:
        return paragraph("None: no environment failed and every number was finite.")
    return table(("step", "event", "what was said"), rows)


def _film(folder: Path) -> list[Html]:
    """The films in a run directory, those that are small enough inside the page."""
    parts = []
    films = (p for p in folder.iterdir() if p.suffix.lower() in _FILMS and p.is_file())
    for path in sorted(films):
        size = path.stat().st_size
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
