"""A report in a real browser: drawn, quiet, and doing what a reader asks of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from devtools import Tab, open_tab
from PIL import Image
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
    values = [-1500.0, -900.0, -140.0, -136.0, -139.0, -137.0, -135.0, -138.0]
    one = write_run(base / "one", values, success=True, train_lines=3000)
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
    assert boxes >= (2 if page == "folder" else 9)
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
    click = "document.querySelector('.figures').querySelector({}).click()"
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


def test_a_run_has_its_page_and_the_way_back(tab: Tab, pages: dict[str, Path]) -> None:
    tab.show(pages["folder"])
    shown = """[document.querySelector('.page.run h1')?.textContent ?? '',
                document.querySelector('.page').hidden,
                document.querySelectorAll('.page:not([hidden]) .plot .js-line').length > 0]"""
    settle = "new Promise(done => setTimeout(done, 300))"
    tab.evaluate(
        "[...document.querySelectorAll('td a')].find(a => a.textContent === 'run-2').click()"
    )
    tab.evaluate(settle)
    name, folder_hidden, drawn = tab.evaluate(shown)
    assert name.endswith("mamba, seed 2") and folder_hidden and drawn
    # A section of the run leads nowhere else, and the theme reaches its figures.
    tab.evaluate("document.querySelector('.page.run nav a:last-child').click()")
    tab.evaluate(settle)
    assert tab.evaluate(shown)[0] == name and tab.evaluate("scrollY") > 0
    ink = "getComputedStyle(document.querySelector('.page.run .xtick text')).fill"
    before = tab.evaluate(ink)
    tab.evaluate("document.getElementById('theme').click()")
    assert tab.evaluate(ink) != before
    tab.evaluate("document.querySelector('.back').click()")
    tab.evaluate(settle)
    assert tab.evaluate(shown) == ["", False, True]
    assert tab.complaints() == []


def test_a_link_to_a_run_opens_it(tab: Tab, pages: dict[str, Path]) -> None:
    tab.show(pages["folder"])
    tab.evaluate("location.hash = 'run-run-3'")
    tab.evaluate("location.reload()")
    tab.evaluate("new Promise(done => setTimeout(done, 1500))")
    drawn = "document.querySelectorAll('.page.run .plot .js-line').length"
    assert tab.evaluate(drawn) > 5 and "seed 3" in tab.evaluate("document.title")


def test_a_page_of_a_run_is_short(tab: Tab, pages: dict[str, Path]) -> None:
    """Half of what it was, 7,179 pixels."""
    tab.show(pages["run"])
    assert tab.evaluate("document.documentElement.scrollHeight") <= 3589


def test_the_first_screen_of_a_folder_answers(tab: Tab, pages: dict[str, Path]) -> None:
    tab.show(pages["folder"])
    bottom = "document.querySelector('{}').getBoundingClientRect().bottom"
    assert tab.evaluate(bottom.format(".verdict")) < tab.evaluate(bottom.format("table")) < 450


def test_tables_fold_on_a_phone(tab: Tab, pages: dict[str, Path]) -> None:
    runs = (
        "[...document.querySelectorAll('table')].find(t => t.tHead.textContent.startsWith('run'))"
    )
    seen = f"[...{runs}.tBodies[0].rows[0].cells].filter(c => c.offsetHeight).length"
    fits = f"{runs}.scrollWidth <= {runs}.parentElement.clientWidth"
    tab.show(pages["folder"])
    columns = tab.evaluate(seen)
    assert columns > 6 and tab.evaluate(fits)
    tab.show(pages["folder"], width=390)
    assert tab.evaluate(seen) == 4 and tab.evaluate(fits)
    tab.evaluate(f"{runs}.querySelector('.unfold').click()")
    assert tab.evaluate(seen) == columns and tab.evaluate(fits)


def test_an_axis_that_is_fitted_can_be_whole(tab: Tab, pages: dict[str, Path]) -> None:
    tab.show(pages["run"])
    low = "document.querySelector('[data-figure=return] .plot')._fullLayout.yaxis.range[0]"
    assert -300 < tab.evaluate(low) < -139
    for expected in (-1500, -300):
        tab.evaluate("document.querySelector('[data-figure=return] .whole').click()")
        assert (tab.evaluate(low) <= -1500) == (expected == -1500)


def test_pictures_follow_the_theme(tab: Tab, pages: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "all"
    write_run(folder / "a", [1.0, 2.0])
    Image.new("RGB", (40, 30), "white").save(folder / "map.png")
    document = {"title": "Map", "files": ["map.png"], "runs": [{"path": "a"}]}
    (folder / "experiment.json").write_text(json.dumps(document))
    make_report(folder).write(tmp_path / "page.html")
    brightness = {}
    for scheme in ("light", "dark"):
        tab.show(tmp_path / "page.html", scheme=scheme)
        tab.evaluate("document.querySelector('.card img').scrollIntoView()")
        place = tab.evaluate(
            "(r => [r.x + 5, r.y + 5])(document.querySelector('.card img').getBoundingClientRect())"
        )
        tab.screenshot(tmp_path / "seen.png")
        with Image.open(tmp_path / "seen.png") as seen:
            brightness[scheme] = seen.convert("L").getpixel((int(place[0]), int(place[1])))
    assert brightness["light"] > 240 and brightness["dark"] < 60
