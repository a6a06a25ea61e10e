"""A report in a real browser: drawn, quiet, and doing what a reader asks of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from devtools import Tab, open_tab
from run_folders import write_run

from resel.reports import make_report

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("reports")
    evil = "<script>document.title = 'taken over'</script>"
    listed = []
    for seed in range(1, 5):
        name = f"run-{seed}"
        write_run(base / "runs" / name, [0.0, 10.0 * seed], task=evil, seed=seed, success=True)
        listed.append({"path": name, "label": evil})
    write_run(base / "runs" / "other", [5.0, 5.0], task=evil, encoder="gru")
    listed.append({"path": "other", "label": "gru"})
    (base / "runs" / "experiment.json").write_text(json.dumps({"title": evil, "runs": listed}))
    one = write_run(base / "one", [1.0, 2.0, 4.0], success=True, train_lines=3000)
    written = {"folder": base / "folder.html", "run": base / "run.html"}
    make_report(base / "runs").write(written["folder"])
    make_report(one).write(written["run"])
    return written


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with open_tab(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.parametrize("page", ["folder", "run"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_figures_are_drawn_and_nobody_complains(
    tab: Tab, pages: dict[str, Path], page: str, scheme: str, width: int
) -> None:
    tab.show(pages[page], width=width, scheme=scheme)
    boxes = tab.evaluate("document.querySelectorAll('.plot').length")
    assert boxes >= (2 if page == "folder" else 12)
    drawn = (
        "[...document.querySelectorAll('.plot')].filter(p => p.querySelector('.js-line')).length"
    )
    assert tab.evaluate(drawn) == boxes
    assert tab.complaints() == []
    assert tab.requests() == []
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert tab.evaluate("document.title") != "taken over"


def test_no_button_sends_anything_away(tab: Tab, pages: dict[str, Path]) -> None:
    tab.show(pages["run"])
    script = "[...document.querySelector('.plot').querySelectorAll('.modebar-btn')]"
    titles = tab.evaluate(script + ".map(b => b.dataset.title)")
    assert len(titles) == 6
    assert not [t for t in titles if "hare" in t or "loud" in t or "lotly" in t]


def test_a_table_sorts(tab: Tab, pages: dict[str, Path]) -> None:
    tab.show(pages["folder"])
    column = """(() => {
        const table = [...document.querySelectorAll('table')]
            .find(t => t.tHead.textContent.startsWith('run'));
        const heads = [...table.tHead.rows[0].cells];
        const index = heads.findIndex(h => h.textContent === 'final return');
        heads[index].querySelector('button').click();
        return [heads[index].ariaSort,
                ...[...table.tBodies[0].rows].map(r => r.cells[index].textContent)];
    })()"""
    assert tab.evaluate(column) == ["ascending", "5", "10", "20", "30", "40"]
    assert tab.evaluate(column) == ["descending", "40", "30", "20", "10", "5"]


def test_legend_and_views(tab: Tab, pages: dict[str, Path]) -> None:
    tab.show(pages["folder"])
    lines = "document.querySelector('.plot').querySelectorAll('.js-line').length"
    click = "document.querySelector('.card').querySelector({}).click()"
    # Two labels, one of them shaded: the outline of the shading has no line of its own width.
    before = tab.evaluate(lines)
    tab.evaluate(click.format(json.dumps("[data-group='0']")))
    assert 0 < tab.evaluate(lines) < before
    tab.evaluate(click.format(json.dumps("[data-group='0']")))
    assert tab.evaluate(lines) == before
    tab.evaluate(click.format(json.dumps("[data-view='single runs']")))
    assert tab.evaluate(lines) == 5


def test_light_and_dark_can_be_chosen(tab: Tab, pages: dict[str, Path]) -> None:
    tab.show(pages["run"], scheme="light")
    colours = """[getComputedStyle(document.body).backgroundColor,
                  getComputedStyle(document.querySelector('.xtick text')).fill]"""
    light = tab.evaluate(colours)
    tab.evaluate("document.getElementById('theme').click()")
    dark = tab.evaluate(colours)
    assert light != dark and light[1] != dark[1]
    tab.show(pages["run"], scheme="dark")
    assert tab.evaluate(colours) == dark


def test_it_prints(tab: Tab, pages: dict[str, Path], tmp_path: Path) -> None:
    tab.show(pages["run"], scheme="dark")
    tab.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    assert tab.complaints() == []
