"""The runs that lie beside a page of results are those that its command asks for today."""

from __future__ import annotations

import pytest
from doc_pages import DOCS

from resel.choices import Scale
from resel.experiments import choose
from resel.experiments.archive import find_archived
from resel.experiments.plan import run_name

_TRAINED = tuple(e.name for e in choose(["all"]) if e.studies["smoke"].count)


@pytest.mark.parametrize(
    ("folder", "scale", "names"),
    [
        ("methods", "cpu", ("methods",)),
        ("lr-others", "cpu", ("fig-lr-others",)),
        ("novel", "cpu", ("table-novel",)),
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
