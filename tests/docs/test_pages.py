"""Every page has its place, every link its end, and every setting and public name its line."""

from __future__ import annotations

import dataclasses
import fnmatch
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from doc_pages import DOCS, PAGES, ROOT, anchors, hooks, links, name_of, shown

from resel.config import OTHER_NAMES, TrainingConfig
from resel.methods import Method, own_methods

SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def _pages_of(nav: Any) -> Iterator[str]:
    for entry in nav:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            yield from [value] if isinstance(value, str) else _pages_of(value)


def test_every_page_has_its_place_in_the_navigation() -> None:
    listed = list(_pages_of(SITE["nav"]))
    assert len(listed) == len(set(listed))
    left_out = SITE["not_in_nav"].split()
    there = {page.relative_to(DOCS).as_posix() for page in PAGES if DOCS in page.parents}
    assert set(listed) <= there, "mkdocs.yml lists pages that are not there"
    missing = [
        page
        for page in there - set(listed)
        if not any(fnmatch.fnmatch(page, pattern) for pattern in left_out)
    ]
    assert not missing, f"put {missing} into `nav` of mkdocs.yml"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    lost = []
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = link.partition("#")
        if film := re.fullmatch(r"zoo/([a-z-]+)\.gif", place):
            assert (hooks().ZOO / film[1] / "film.gif").is_file(), place
            continue
        target = (page.parent / place).resolve() if place else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
        elif DOCS in page.parents and DOCS not in target.parents:
            lost.append(f"{link}, which is not in the site")
    assert not lost


@pytest.mark.parametrize("method", own_methods(), ids=lambda method: method.name)
def test_the_page_of_a_method_has_all_its_settings(method: Method) -> None:
    text = shown(DOCS / "methods" / hooks().page_of(method))
    every = shown(DOCS / "reference" / "settings.md")
    for kind in (method.settings, method.network):
        for field in dataclasses.fields(kind):
            assert f"| `{field.name}` |" in text
            assert f"| `{field.name}` |" in every


def test_the_page_of_a_method_has_its_curve() -> None:
    assert "curves/resel.png" in shown(DOCS / "methods" / "resel.md")
    assert "| RESeL | Pendulum-V-v0 | -" in shown(DOCS / "methods" / "resel.md")


def test_the_loops_settings_are_listed() -> None:
    text = shown(DOCS / "reference" / "settings.md")
    for field in dataclasses.fields(TrainingConfig):
        assert re.search(rf"\| `{field.name}` \| `.+` \| \S.* \|", text), field.name


def test_names_of_other_libraries_are_listed() -> None:
    text = shown(DOCS / "coming-from.md")
    missing = [name for name in OTHER_NAMES if f"| `{name}` |" not in text]
    assert not missing


def test_the_reference_has_a_page_of_every_room_that_is_documented() -> None:
    for page in (DOCS / "reference").glob("*.md"):
        if page.stem not in ("README", "settings"):
            (room,) = re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.M)
            assert importlib.import_module(room)
            assert page.stem == room.removeprefix("resel.")


def test_the_equations_name_files_of_the_code() -> None:
    text = (DOCS / "mathematics.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_/]+\.py)`", text)
    assert len(named) > 5
    assert not [file for file in named if not (ROOT / "src" / "resel" / file).is_file()]


def test_the_sites_own_files_name_no_other_host() -> None:
    assert SITE["theme"]["font"] is False
    own = [*SITE["extra"]["polyfills"], *SITE["extra_css"], *SITE["extra_javascript"]]
    own += ["assets/katex/katex.min.css"]
    for name in own:
        text = (DOCS / name).read_text(encoding="utf-8")
        assert not re.search(r"https?://(?!www\.w3\.org)", text), name
    style = DOCS / "assets" / "katex" / "katex.min.css"
    for font in re.findall(r"url\(([^)]+)\)", style.read_text(encoding="utf-8")):
        assert (style.parent / font).is_file(), font
