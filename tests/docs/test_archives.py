"""The runs that lie beside a page of results are those that its command asks for today."""

from __future__ import annotations

import csv

import pytest
from doc_pages import DOCS

from resel.choices import Scale
from resel.experiments import CATALOGUE, choose
from resel.experiments.archive import find_archived
from resel.experiments.plan import run_name

_TRAINED = tuple(e.name for e in choose(["all"]) if e.studies["smoke"].count)


@pytest.mark.parametrize(
    ("folder", "scale", "names"),
    [
        ("methods", "cpu", ("methods",)),
        ("lr-others", "cpu", ("fig-lr-others",)),
        ("novel", "cpu", ("table-novel",)),
        ("popgym", "cpu", ("table-popgym",)),
        ("auto-lr", "cpu", ("fig-auto-lr",)),
        ("paper-smoke", "smoke", _TRAINED),
    ],
)
def test_what_is_kept_is_what_is_drawn(folder: str, scale: Scale, names: tuple[str, ...]) -> None:
    """A preset that changes makes a page's numbers those of other settings: run them again."""
    missing = [
        f"{experiment.name}: {run_name(config)}"
        for experiment in choose(names)
        for setting, seed in experiment.studies[scale].runs()
        for config in (setting.config(seed),)
        if find_archived(
            DOCS / "results" / folder / "runs", run_name(config), config.training.steps
        )
        is None
    ]
    assert not missing


def test_the_thresholds_of_methods_are_those_of_its_table() -> None:
    """A task's threshold that changes, or is new, would give the page another table."""
    said = CATALOGUE["methods"].studies["cpu"].numbers["thresholds"]
    with (DOCS / "results" / "methods" / "table.csv").open() as file:
        shown = {row["panel"]: float(row["threshold"]) for row in csv.DictReader(file)}
    assert all(value == said[panel] for panel, value in shown.items() if said.get(panel))
    # What the runs show themselves is no round number.
    others = [value for panel, value in shown.items() if not said.get(panel)]
    assert others and not any(value.is_integer() for value in others)
