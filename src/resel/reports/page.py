"""One HTML file with everything in it: text, styles, scripts, figures."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources

import resel
from resel.reports.elements import Html, escape
from resel.reports.figures import MOST_POINTS, Figure, Line, with_own_names
from resel.reports.interactive import legend_key, plotly_figure, plotly_source

Part = Html | tuple[Figure, ...]
"""Markup, or figures side by side."""


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    heading: str
    parts: Sequence[Part]


@dataclass(frozen=True)
class Page:
    """What a report says, before it has a form."""

    title: str
    subtitle: str
    sections: Sequence[Section]

    @property
    def figures(self) -> list[Figure]:
        """All figures, each with a name of its own."""
        groups = [p for s in self.sections for p in s.parts if not isinstance(p, Html)]
        return with_own_names(figure for group in groups for figure in group)


def render(page: Page) -> str:
    """The whole file. It asks nothing of the network, and its policy forbids asking."""
    figures = iter(page.figures)
    body = "".join(
        f'<section id="section-{index}">\n<h2>{escape(section.heading)}</h2>\n'
        + "".join(
            part.text
            if isinstance(part, Html)
            else _grid([replace(next(figures), lines=figure.lines) for figure in part])
            for part in section.parts
        )
        + "</section>\n"
        for index, section in enumerate(page.sections)
    )
    links = "".join(
        f'<a href="#section-{index}">{escape(section.heading)}</a>\n'
        for index, section in enumerate(page.sections)
    )
    scripts = [plotly_source(), _asset("page.js")]
    return _TEMPLATE.format(
        policy=_policy(scripts),
        title=escape(page.title),
        subtitle=escape(page.subtitle),
        style=_asset("page.css"),
        links=links,
        body=body,
        version=escape(resel.__version__),
        figures=_data({figure.name: plotly_figure(figure) for figure in page.figures}),
        plotly=scripts[0],
        script=scripts[1],
    )


def _grid(figures: Sequence[Figure]) -> str:
    return f'<div class="grid">\n{"".join(map(_card, figures))}</div>\n'


def _card(figure: Figure) -> str:
    views = "".join(
        f'<button type="button" aria-pressed="{str(not i).lower()}" data-view="{escape(view)}">'
        f"{escape(view)}</button>"
        for i, view in enumerate(figure.views)
    )
    choice = f'<div class="views" role="group">{views}</div>' if len(figure.views) > 1 else ""
    entries = "".join(map(_entry, figure.legend))
    longest = max((len(line.x) for line in figure.lines), default=0)
    note = figure.note
    if longest > MOST_POINTS:
        note += f" Of up to {longest:,} points, {MOST_POINTS:,} are shown: the lowest and the "
        note += "highest of each stretch."
    return (
        f'<figure class="card" id="figure-{escape(figure.name)}">'
        f"<h3>{escape(figure.title)}</h3>{choice}"
        f'<div class="plot" role="img" aria-label="{escape(figure.title)}"></div>'
        f'<div class="legend">{entries}</div>'
        f"<figcaption>{escape(note.strip())}</figcaption></figure>\n"
    )


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


def _asset(name: str) -> str:
    return (resources.files("resel.reports") / "assets" / name).read_text(encoding="utf-8")


def _data(value: object) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _policy(scripts: Sequence[str]) -> str:
    """Only our own scripts run, and nothing is fetched."""
    digests = (base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; media-src data:; base-uri 'none'; form-action 'none'"
    )


_TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="resel {version}">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
<p>{subtitle}</p>
<button type="button" id="theme" hidden>Light or dark</button>
<nav aria-label="Sections">
{links}</nav>
</header>
<main>
<noscript><p class="note">The figures need JavaScript; the tables do not.</p></noscript>
{body}</main>
<footer>Written by resel {version}. Every figure can be zoomed and saved; tables sort by a click
on a heading.</footer>
<script type="application/json" id="figures">{figures}</script>
<script>{plotly}</script>
<script>{script}</script>
</body>
</html>
"""
