"""Pieces of the page. Whatever comes from a run passes through `escape`, once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from resel.reports.cells import Cell, Html, column_cells, escape, is_numeric, plain
from resel.runs import ENDED

_FIRST = 4
"""Columns that a phone shows before one asks for more."""
_KINDS = dict.fromkeys(ENDED, "good")
_KINDS |= dict.fromkeys(("running", "interrupted", "no result yet"), "open")


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    marked: Iterable[int] = (),
    first: int = _FIRST,
) -> Html:
    """A table that sorts by a click on its heads; `marked` rows stand out.

    The columns are in the order of their importance: a phone shows the `first` ones before it is
    asked for more. A column in which nothing stands is left out.
    """
    listed, chosen = [list(row) for row in rows], set(marked)
    columns = [
        (head, column, "number" if is_numeric(column) else "")
        for head, column in zip(heads, _columns(listed, len(heads)), strict=True)
        if not listed or any(cell is not None for cell in column)
    ]
    head = "".join(
        f'<th scope="col" class="{kind}"><button type="button">{escape(name)}</button></th>'
        for name, _, kind in columns
    )
    cells = [
        [
            f'<td class="{f"{kind} more" if index >= first else kind}" data-head="{escape(name)}">'
            f"{text}</td>"
            for text in column_cells(column)
        ]
        for index, (name, column, kind) in enumerate(columns)
    ]
    body = "".join(
        f'<tr class="{"ours" if index in chosen else ""}">{"".join(row)}</tr>\n'
        for index, row in enumerate(zip(*cells, strict=True))
    )
    return Html(
        f'<div class="wide" tabindex="0"><table class="sortable"><thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}</tbody></table></div>\n"
    )


def _columns(rows: Sequence[Sequence[Cell]], count: int) -> list[list[Cell]]:
    return [[row[index] for row in rows] for index in range(count)]


def status(words: str, kind: str | None = None) -> Html:
    """How a run stands, in the colour of a traffic light."""
    return Html(f'<span class="status {kind or status_kind(words)}">{escape(words)}</span>')


def status_kind(state: str) -> str:
    """Whether the state of a run is good, open or bad."""
    return _KINDS.get(state, "bad")


def verdict(states: Iterable[Html], words: str) -> Html:
    """The first line of a page: how things stand, and a sentence."""
    return Html(f'<p class="verdict">{" ".join(s.text for s in states)} {escape(words)}</p>\n')


def link(target: str, words: str) -> Html:
    """A way to another place of the same file."""
    return Html(f'<a href="#{escape(target)}">{escape(words)}</a>')


def fold(summary: str, *content: Html) -> Html:
    """Content that a reader opens."""
    inner = "".join(piece.text for piece in content)
    return Html(f"<details><summary>{escape(summary)}</summary>\n{inner}</details>\n")


def beside(*content: Html) -> Html:
    """Blocks side by side, where there is room."""
    inner = "".join(f"<div>{piece.text}</div>" for piece in content)
    return Html(f'<div class="beside">{inner}</div>\n')


def paragraph(text: str, kind: str = "text") -> Html:
    """One paragraph of plain text."""
    return Html(f'<p class="{kind}">{escape(text)}</p>\n')


def code(text: str) -> Html:
    """Text as it was written, line by line."""
    return Html(f"<pre>{escape(text)}</pre>\n")


def tiles(facts: Sequence[tuple[str, Cell]]) -> Html:
    """The few facts a reader looks for first."""
    inner = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{plain(value)}</dd></div>" for name, value in facts
    )
    return Html(f'<dl class="tiles">{inner}</dl>\n')
