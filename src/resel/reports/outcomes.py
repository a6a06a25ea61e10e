"""What an experiment left beside its runs: pictures and tables that no run holds."""

from __future__ import annotations

import base64
import csv
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from resel.reports.cells import Cell, Html, Measured, escape, with_error, with_interval
from resel.reports.collection import Experiment
from resel.reports.elements import paragraph, table
from resel.reports.page import Part

_MOST_BYTES = 5_000_000
_FROM_RUNS = "curves.png"
"""The one picture that the page draws itself."""
_PLAIN = ("lengths", "anchors", "mmer", "rates", "comparison")
"""Kinds of experiments whose table is shown as it is."""


def outcome_parts(experiment: Experiment) -> list[Part]:
    """The pictures of an experiment, and the tables it is about."""
    return list(_parts(experiment))


def overview(experiments: list[Experiment]) -> Html:
    """One line for each of several experiments."""
    rows: list[list[Cell]] = [
        [
            str(experiment.data.get("name", experiment.path.name)),
            experiment.title,
            str(experiment.data.get("paper", "")),
            str(experiment.data.get("scale", "")),
            len(experiment.members),
            "; ".join(_words(experiment, "notes")) or None,
        ]
        for experiment in experiments
    ]
    return table(("experiment", "shows", "in the paper", "scale", "runs", "notes"), rows)


def picture(path: Path, words: str) -> Html:
    """A PNG inside the page."""
    source = base64.b64encode(path.read_bytes()).decode()
    return Html(
        f'<figure class="card"><img alt="{escape(words)}" src="data:image/png;base64,{source}">'
        "</figure>\n"
    )


def amplification_parts(data: Mapping[str, Any]) -> list[Html]:
    """The numbers of a measured amplification, and what is to be known about them."""
    rows: list[list[Cell]] = []
    for variation in data["variations"]:
        rates, effective = variation["rates"], variation["effective"]
        rows.append(
            [
                rates["context_encoder"],
                rates["other"],
                *(variation[name] for name in ("first", "converged", "factor")),
                *(effective[name] for name in ("K_h", "K_y", "epsilon", "relative_error")),
            ]
        )
    heads = ("LR_CE", "LR_other", "first step", "converged", "factor")
    effective_heads = ("effective K_h", "effective K_y", "effective epsilon", "misfit")
    note = (
        f"L2 distance of {data['distance']} after one update, over {len(data['lengths'])} episodes "
        f"of a run at step {data['step']:,}. K_h, K_y and epsilon are effective values: fitted to "
        "the curve, with that misfit, no bounds."
    )
    parts = [table((*heads, *effective_heads), rows), paragraph(note, "note")]
    return [*parts, paragraph(data["doubt"], "note")] if data.get("doubt") else parts


def _parts(experiment: Experiment) -> Iterator[Part]:
    kind, command = experiment.data.get("kind"), experiment.data.get("command")
    if command and experiment.data.get("files") == []:
        why = "; ".join(_words(experiment, "notes")) or "It comes when all runs have ended."
        yield paragraph(f"Nothing is drawn yet. {why} The command: {command}", "note")
    for name in _words(experiment, "files"):
        path = experiment.path / name
        if Path(name).name != name or not path.is_file() or path.stat().st_size > _MOST_BYTES:
            continue
        if path.suffix == ".png" and name != _FROM_RUNS:
            yield picture(path, f"{experiment.title}: {path.stem}")
        elif (path.suffix == ".csv" and kind == "timing") or (
            name == "table.csv" and kind in _PLAIN
        ):
            yield from read_or_say(path, lambda path: [_as_it_is(path)])
        elif name == "table.csv" and kind == "table":
            yield from read_or_say(path, lambda path: [_returns(path)])
        elif name == "amplification.json":
            yield from read_or_say(
                path, lambda path: amplification_parts(json.loads(path.read_bytes()))
            )


def read_or_say(path: Path, make: Callable[[Path], Sequence[Part]]) -> Sequence[Part]:
    """What is made of a file, or why it cannot be."""
    try:
        return make(path)
    except (LookupError, TypeError, ValueError, csv.Error) as error:
        return [paragraph(f"{path.name} cannot be read ({error!r}).", "note")]


def _as_it_is(path: Path) -> Html:
    head, *rows = csv.reader(path.read_text(encoding="utf-8").splitlines())
    return table([word.replace("_", " ") for word in head], [list(map(_cell, r)) for r in rows])


def _returns(path: Path) -> Html:
    """Our scores of every method, and beside them the paper's."""
    reader = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    if "method" not in (reader.fieldnames or ()):  # written before there was a row for each
        return _as_it_is(path)
    rows: list[list[Cell]] = []
    for row in reader:
        found = {name: _cell(text or "") for name, text in row.items()}
        ours = [*(found[name] for name in ("task", "step", "method"))]
        ours += [_score(found, "mean", "standard_error"), _score(found, "paper", "paper_error")]
        interval = [_number(found[name]) for name in ("iqm", "iqm_low", "iqm_high")]
        rows.append([*ours, with_interval(*interval), found["runs"], found["diverged"]])
    heads = ("task", "steps", "method", "ours ± standard error", "paper ± standard error")
    marked = [index for index, row in enumerate(rows) if row[3] is not None]
    return table((*heads, "interquartile mean [95 %]", "runs", "diverged"), rows, marked)


def _score(row: Mapping[str, Cell], mean: str, error: str) -> Measured | None:
    value = _number(row[mean])
    return None if math.isnan(value) else with_error(value, _number(row[error]))


def _number(cell: Cell) -> float:
    return float(cell) if isinstance(cell, int | float) else math.nan


def _cell(text: str) -> Cell:
    try:
        return float(text) if text else None
    except ValueError:
        return text


def _words(experiment: Experiment, key: str) -> list[str]:
    listed = experiment.data.get(key)
    return [str(word) for word in listed] if isinstance(listed, list) else []
