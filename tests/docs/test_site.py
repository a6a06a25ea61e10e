"""The site is built without a warning, loads nothing from elsewhere, and works in a browser."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from devtools import open_tab
from doc_pages import ROOT

import resel

pytestmark = pytest.mark.slow
_PAGES = ("index.html", "mathematics.html", "reference/resel.html", "methods/resel.html")
_WORDS = ("LR_CE", "ONNX", "lr_context_encoder")
_SEARCH = """new Promise(done => {
  const box = document.querySelector('[data-md-component=search-query]');
  document.querySelector('#__search').click();
  box.focus();
  box.value = WORD;
  box.dispatchEvent(new Event('keyup', {bubbles: true}));
  const look = tries => {
    const found = [...document.querySelectorAll('.md-search-result__link')].map(a => a.href);
    if (found.length || !tries) done(found); else setTimeout(look, 200, tries - 1);
  };
  look(50);
})"""
"""What a search for WORD finds, within ten seconds."""


_COVERED = """new Promise(done => setTimeout(() => done(
  [...document.querySelectorAll('.katex-tag')].filter(tag =>
    [...tag.parentElement.querySelectorAll('.base')].some(base =>
      !tag.contains(base)
      && base.getBoundingClientRect().right > tag.getBoundingClientRect().left + 1)
  ).length), 1500))"""
"""Numbers of equations that lie upon the equation."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make docs` does, into a folder of its own."""
    folder = tmp_path_factory.mktemp("site")
    source = str(Path(resel.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": source, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]*\ssrc=\"([^\"]+)\"", text)
        for link in re.findall(r"<link[^>]*>", text):
            loaded += re.findall(r"\shref=\"([^\"]+)\"", link)
        for address in loaded:
            parts = urlsplit(address)
            assert not parts.scheme and not parts.netloc, f"{page}: {address}"
            if not parts.path.startswith("/"):  # as on the page of errors, which no file opens
                assert (page.parent / unquote(parts.path)).exists(), f"{page}: {address}"
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", style.read_text(encoding="utf-8")), style


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    text = (site / "reference" / "resel.html").read_text(encoding="utf-8")
    missing = [name for name in resel.__all__ if f'id="resel.{name}"' not in text]
    assert not missing
    assert "__post_init__" not in text


def test_formulas_and_settings_are_in_the_pages(site: Path) -> None:
    text = (site / "mathematics.html").read_text(encoding="utf-8")
    assert text.count('class="arithmatex"') > 30
    assert "lr_context_encoder" in (site / "methods" / "resel.html").read_text(encoding="utf-8")
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    assert any("Proposition 1" in entry["text"] for entry in index["docs"])


def test_a_browser_finds_no_fault(site: Path, tmp_path: Path) -> None:
    with open_tab(tmp_path / "profile") as tab:
        for page in _PAGES:
            for width in (1280, 390):
                tab.show(site / page, width=width)
                assert not tab.complaints()
                assert all(url.startswith("file:") for url in tab.requests())
                assert tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        tab.show(site / "mathematics.html")
        drawn = "document.querySelectorAll('.arithmatex .katex').length"
        tab.evaluate(
            "new Promise(done => { const look = tries => "
            f"{drawn} || !tries ? done() : setTimeout(look, 100, tries - 1); look(100); }})"
        )
        assert tab.evaluate(drawn) == tab.evaluate(
            "document.querySelectorAll('.arithmatex').length"
        )
        assert tab.evaluate("document.querySelectorAll('.katex-error').length") == 0
        tab.show(site / "mathematics.html", width=390)
        assert tab.evaluate(_COVERED) == 0, "a number stands on its formula"
        for word in _WORDS:
            tab.show(site / "index.html")
            assert tab.evaluate(_SEARCH.replace("WORD", json.dumps(word))), f"{word} is not found"
            assert not tab.complaints()
