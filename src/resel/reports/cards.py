"""Figures as the page shows them: cards side by side, one legend for those that share lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from resel.reports.cells import escape, number
from resel.reports.figures import MOST_POINTS, Chart, Figure, Line
from resel.reports.interactive import legend_key

_FEW = 2
"""Figures that stand side by side in full size; more of them are smaller."""


def cards(figures: Sequence[Figure | Chart]) -> str:
    """The figures of a section; what all of them can show is chosen for all of them at once."""
    legend = _shared_legend(figures)
    choices = {tuple(figure.views) for figure in figures}
    views = choices.pop() if len(choices) == 1 else ()
    inner = "".join(_card(figure, own_legend=legend is None) for figure in figures)
    size = "grid" if len(figures) <= _FEW else "grid small"
    return (
        f'<div class="figures">{_views(views)}<div class="{size}">\n{inner}</div>'
        f"{_legend(legend or [])}</div>\n"
    )


def _shared_legend(figures: Sequence[Figure | Chart]) -> list[Line] | None:
    """An entry for each line of all figures; None if a look stands for two different things."""
    entries: dict[str, Line] = {}
    for line in (line for figure in figures for line in figure.legend):
        if entries.setdefault(legend_key(line), line).label != line.label:
            return None
    return list(entries.values())


def _card(figure: Figure | Chart, own_legend: bool) -> str:
    whole = '<button type="button" class="whole" aria-pressed="false">all values</button>'
    return (
        f'<figure class="card" data-figure="{escape(figure.name)}">'
        f'<div class="title"><h3>{escape(figure.title)}</h3>{whole if figure.fitted else ""}</div>'
        f'<div class="plot" role="img" aria-label="{escape(figure.title)}"></div>'
        f"{_legend(figure.legend if own_legend else [])}{_caption(figure)}</figure>\n"
    )


def _caption(figure: Figure | Chart) -> str:
    words = [figure.note] if figure.note else []
    if figure.fitted:
        words.append(
            "The axis is fitted to the second half of training; earlier values down to "
            f"{number(figure.fitted[2])} lie below it."
        )
    longest = max((len(line.x) for line in figure.lines), default=0)
    if longest > MOST_POINTS:
        words.append(
            f"Of up to {longest:,} points, {MOST_POINTS:,} are shown: the lowest and the highest "
            "of each stretch."
        )
    return f"<figcaption>{escape(' '.join(words))}</figcaption>" if words else ""


def _views(views: Sequence[str]) -> str:
    if len(views) < 2:
        return ""
    buttons = "".join(
        f'<button type="button" aria-pressed="{str(not i).lower()}" data-view="{escape(view)}">'
        f"{escape(view)}</button>"
        for i, view in enumerate(views)
    )
    return f'<div class="views" role="group">{buttons}</div>'


def _legend(lines: Iterable[Line]) -> str:
    """Buttons for the lines; a line that is alone needs none."""
    entries = list(map(_entry, lines))
    return f'<div class="legend">{"".join(entries)}</div>' if len(entries) > 1 else ""


def _entry(line: Line) -> str:
    """A button of the legend, with a sample of the line."""
    dash = " ".join(map(str, line.dash)) or "none"
    sample = (
        '<svg width="34" height="10" aria-hidden="true"><line x1="0" x2="34" y1="5" y2="5" '
        f'stroke="{line.colour}" stroke-width="2.5" stroke-dasharray="{dash}"/></svg>'
    )
    shown = str(not line.reference).lower()
    return (
        f'<button type="button" aria-pressed="{shown}" data-group="{legend_key(line)}">'
        f"{sample}{escape(line.label)}</button>"
    )
