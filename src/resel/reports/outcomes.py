"""What an experiment left beside its runs: pictures that no run holds, and its table of times."""

from __future__ import annotations

import base64
import csv
from collections.abc import Iterator
from pathlib import Path

from resel.reports.elements import Cell, Html, escape, paragraph, table
from resel.reports.reading import Experiment

_MOST_BYTES = 5_000_000
_FROM_RUNS = "curves"
"""Pictures whose names begin so show curves, which the page draws itself."""


def outcome_parts(experiment: Experiment) -> list[Html]:
    """The pictures of an experiment, and the times of an update if it is about these."""
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


def _parts(experiment: Experiment) -> Iterator[Html]:
    for name in _words(experiment, "files"):
        path = experiment.path / name
        if Path(name).name != name or not path.is_file() or path.stat().st_size > _MOST_BYTES:
            continue
        if path.suffix == ".png" and not name.startswith(_FROM_RUNS):
            source = base64.b64encode(path.read_bytes()).decode()
            alt = escape(f"{experiment.title}: {path.stem}")
            yield Html(
                f'<figure class="card"><img alt="{alt}" src="data:image/png;base64,{source}">'
                "</figure>\n"
            )
        elif path.suffix == ".csv" and experiment.data.get("kind") == "timing":
            yield _table(path)


def _table(path: Path) -> Html:
    try:
        head, *rows = csv.reader(path.read_text(encoding="utf-8").splitlines())
    except (UnicodeDecodeError, ValueError, csv.Error) as error:
        return paragraph(f"{path.name} cannot be read ({error}).", "note")
    return table([word.replace("_", " ") for word in head], [list(map(_cell, r)) for r in rows])


def _cell(text: str) -> Cell:
    try:
        return float(text) if text else None
    except ValueError:
        return text


def _words(experiment: Experiment, key: str) -> list[str]:
    listed = experiment.data.get(key)
    return [str(word) for word in listed] if isinstance(listed, list) else []
