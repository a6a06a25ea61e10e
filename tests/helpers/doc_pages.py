"""The pages of the documentation: their blocks of code, their links, and the site's own hooks."""

from __future__ import annotations

import importlib.util
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace

from markdown.extensions.toc import slugify

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))])
_FENCE = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```$", re.M | re.S)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def name_of(page: Path) -> str:
    """Where it is, from the root of the repository."""
    return page.relative_to(ROOT).as_posix()


@cache
def hooks() -> ModuleType:
    """docs/site_hooks.py, loaded as MkDocs does."""
    sys.path.insert(0, str(DOCS))
    try:
        spec = importlib.util.spec_from_file_location("site_hooks", DOCS / "site_hooks.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(DOCS))
    return module


@cache
def shown(page: Path) -> str:
    """The page with what the site puts into it."""
    text = page.read_text(encoding="utf-8")
    if DOCS not in page.parents:
        return text
    file = SimpleNamespace(src_uri=page.relative_to(DOCS).as_posix())
    return str(hooks().on_page_markdown(text, page=SimpleNamespace(file=file)))


def blocks(page: Path, *languages: str) -> list[str]:
    """Its blocks of code in one of the languages, without those that are files by a title."""
    found = _FENCE.findall(page.read_text(encoding="utf-8"))
    return [
        re.sub(rf"^{indent}", "", code, flags=re.M)
        for indent, language, code in found
        if language.strip() in languages
    ]


def links(page: Path) -> list[str]:
    """Everything a page links to or shows, its code left out."""
    return _LINK.findall(re.sub(r"`[^`\n]*`", "", _FENCE.sub("", shown(page))))


@cache
def anchors(page: Path) -> set[str]:
    """The names by which the headings of a page can be linked to."""
    headings = re.findall(r"^#+ (.+?) *$", _FENCE.sub("", shown(page)), re.M)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {slugify(heading.replace("`", ""), "-") for heading in plain}
