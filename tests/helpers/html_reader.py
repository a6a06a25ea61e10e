"""A report, read back from its HTML."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from resel.reports import make_report

_EMPTY = {"meta", "link", "img", "line", "input", "br"}


class Reader(HTMLParser):
    """Texts, tags and attributes of a page; every element must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: dict[str, str] = {}
        self.rows: list[list[str]] = []
        self.named_rows: list[dict[str, str]] = []
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
            self.named_rows.append({})
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in _EMPTY:
            self._open.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in _EMPTY:
            assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        inside = [tag for tag, _ in self._open]
        if inside and inside[-1] == "script":
            key = self._open[-1][1].get("id") or f"script {len(self.scripts)}"
            self.scripts[key] = self.scripts.get(key, "") + data
        else:
            self.texts.append(data)
        if "td" in inside or "th" in inside:
            self.rows[-1][-1] += data
        cell = next((a for tag, a in reversed(self._open) if tag == "td"), {})
        if head := cell.get("data-head"):
            self.named_rows[-1][head] = self.named_rows[-1].get(head, "") + data

    @property
    def figures(self) -> dict[str, Any]:
        return dict(json.loads(self.scripts["figures"]))

    @property
    def text(self) -> str:
        return " ".join(self.texts)

    def row(self, first: str) -> list[str]:
        return next(row for row in self.rows if row[0] == first)

    def named(self, head: str, first: str) -> dict[str, str]:
        """The cells of a row by the heads of their columns; `head` is that of the first."""
        return next(row for row in self.named_rows if row.get(head) == first)


def read_report(folder: Path, tmp_path: Path) -> Reader:
    """The report of a run or a folder."""
    out = tmp_path / "out" / "page.html"
    make_report(folder).write(out)
    return Reader(out.read_text(encoding="utf-8"))
