"""Pieces of the page. Whatever comes from a run passes through `escape` here, once."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Html:
    """Text that is markup already; every other string is escaped."""

    text: str


Cell = str | int | float | None | Html


def escape(text: object) -> str:
    """Text that a browser shows as it is."""
    return html.escape(str(text), quote=True)


def number(value: float | None) -> str:
    """A number for reading: four digits, or all of them before the point."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, int) or (math.isfinite(value) and abs(value) >= 1000):
        return f"{value:,.0f}"
    return f"{value:.4g}"


def with_error(mean: float | None, error: float) -> Html | None:
    """`mean ± error`, which sorts by the mean."""
    if mean is None:
        return None
    shown = number(mean) + ("" if math.isnan(error) else f" ± {number(error)}")
    return _sorted_by(mean, shown)


def with_interval(value: float, low: float, high: float) -> Html | None:
    """`value [low, high]`, which sorts by the value."""
    if math.isnan(value):
        return None
    return _sorted_by(value, f"{number(value)} [{number(low)}, {number(high)}]")


def duration(seconds: float | None) -> Html | None:
    """Seconds as people say them."""
    if seconds is None:
        return None
    minutes = seconds / 60
    if minutes < 2:
        shown = f"{seconds:.0f} s"
    elif minutes < 120:
        shown = f"{minutes:.0f} min"
    else:
        shown = f"{minutes / 60:.1f} h"
    return _sorted_by(seconds, shown)


def table(heads: Sequence[str], rows: Iterable[Sequence[Cell]], marked: Iterable[int] = ()) -> Html:
    """A table that sorts by a click on its heads; `marked` rows stand out."""
    chosen = set(marked)
    body = "".join(
        f'<tr class="{"ours" if index in chosen else ""}">{"".join(map(_cell, row))}</tr>\n'
        for index, row in enumerate(rows)
    )
    head = "".join(
        f'<th scope="col"><button type="button">{escape(h)}</button></th>' for h in heads
    )
    return Html(
        f'<div class="wide" tabindex="0"><table class="sortable"><thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}</tbody></table></div>\n"
    )


def _cell(value: Cell) -> str:
    if value is None:
        return "<td>–</td>"
    if isinstance(value, Html):
        return f"<td>{value.text}</td>"
    if isinstance(value, str):
        return f"<td>{escape(value)}</td>"
    if isinstance(value, bool):
        return f"<td>{value}</td>"
    return f"<td>{_sorted_by(value, number(value)).text}</td>"


def _sorted_by(value: float, shown: str) -> Html:
    key = "" if math.isnan(value) else f"{float(value)!r}".replace("inf", "Infinity")
    return Html(f'<span class="number" data-value="{key}">{shown}</span>')


def fold(summary: str, *content: Html) -> Html:
    """Content that a reader opens."""
    inner = "".join(piece.text for piece in content)
    return Html(f"<details><summary>{escape(summary)}</summary>\n{inner}</details>\n")


def paragraph(text: str, kind: str = "text") -> Html:
    """One paragraph of plain text."""
    return Html(f'<p class="{kind}">{escape(text)}</p>\n')


def code(text: str) -> Html:
    """Text as it was written, line by line."""
    return Html(f"<pre>{escape(text)}</pre>\n")


def tiles(facts: Sequence[tuple[str, Cell]]) -> Html:
    """The few facts a reader looks for first."""
    inner = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{_plain(value)}</dd></div>" for name, value in facts
    )
    return Html(f'<dl class="tiles">{inner}</dl>\n')


def _plain(value: Cell) -> str:
    if isinstance(value, Html):
        return value.text
    return escape(value) if isinstance(value, str) else number(value)
