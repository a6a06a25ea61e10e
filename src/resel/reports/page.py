"""One HTML file with everything in it: text, styles, scripts, figures."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources

import resel
from resel.reports.cards import cards
from resel.reports.cells import Html, escape
from resel.reports.figures import Chart, Figure, with_own_names
from resel.reports.interactive import plotly_figure, plotly_source

Part = Html | tuple[Figure | Chart, ...]
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
    pages: Mapping[str, Page] = field(default_factory=dict)
    """Further pages in the same file, by the names that links to them use."""

    @property
    def figures(self) -> list[Figure | Chart]:
        """All figures of this page, each with a name of its own."""
        groups = [p for s in self.sections for p in s.parts if not isinstance(p, Html)]
        return with_own_names([figure for group in groups for figure in group])


def render(page: Page) -> str:
    """The whole file. It asks nothing of the network, and its policy forbids asking."""
    scripts = [plotly_source(), _asset("tables.js") + _asset("page.js")]
    back = f'<a class="back" href="#">← {escape(page.title)}</a>\n'
    return _TEMPLATE.format(
        policy=_policy(scripts),
        title=escape(page.title),
        style=_asset("page.css"),
        page=_body(page, "", ""),
        pages="".join(
            f'<template id="{escape(name)}">\n{_body(inner, f"{name}/", back)}</template>\n'
            for name, inner in page.pages.items()
        ),
        version=escape(resel.__version__),
        plotly=scripts[0],
        script=scripts[1],
    )


def _body(page: Page, prefix: str, back: str) -> str:
    """The markup of one page; `prefix` keeps the names of its sections apart from others'."""
    figures = iter(page.figures)
    sections = "".join(
        f'<section id="{escape(prefix)}section-{index}">\n<h2>{escape(section.heading)}</h2>\n'
        + "".join(
            part.text
            if isinstance(part, Html)
            else cards([replace(figure, name=next(figures).name) for figure in part])
            for part in section.parts
        )
        + "</section>\n"
        for index, section in enumerate(page.sections)
    )
    links = "".join(
        f'<a href="#{escape(prefix)}section-{index}">{escape(section.heading)}</a>\n'
        for index, section in enumerate(page.sections)
    )
    return _PAGE.format(
        back=back,
        title=escape(page.title),
        subtitle=escape(page.subtitle),
        links=links,
        sections=sections,
        figures=_data({figure.name: plotly_figure(figure) for figure in page.figures}),
        id="" if prefix else ' id="figures"',
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


_PAGE = """<div class="page">
<header>
{back}<h1>{title}</h1>
<p>{subtitle}</p>
<nav aria-label="Sections">
{links}</nav>
</header>
<main>
{sections}</main>
<script type="application/json" class="figures"{id}>{figures}</script>
</div>
"""

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
<div class="above"><button type="button" id="theme" hidden>Light or dark</button></div>
<noscript><p class="note">The figures, and the pages of single runs, need JavaScript; the tables
do not.</p></noscript>
{page}{pages}<footer>Written by resel {version}. Every figure can be zoomed and saved; tables sort
by a click on a heading.</footer>
<script>{plotly}</script>
<script>{script}</script>
</body>
</html>
"""
