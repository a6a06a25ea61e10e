"""Figures for the page, in the form that plotly.js takes."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

from resel.errors import MissingDependencyError
from resel.reports.figures import Chart, Figure, Line, thin


def plotly_source() -> str:
    """The JavaScript that draws; it becomes part of the page, which needs no network then."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MissingDependencyError(
            "A report needs the package plotly: pip install 'resel[report]'."
        ) from error
    return str(get_plotlyjs())


def plotly_figure(figure: Figure | Chart) -> dict[str, Any]:
    """Traces and layout; colours of text and grid are the page's business."""
    if isinstance(figure, Chart):
        meta = {"group": "0", "view": ""}
        traces = [{"visible": True, "meta": meta, **trace} for trace in figure.data]
        margin = {"l": 52, "r": 12, "t": 12, "b": 40}
        return {"data": traces, "layout": {"showlegend": False, "margin": margin, **figure.layout}}
    traces = []
    for line in map(thin, figure.lines):
        traces += [*_band(line, figure), _trace(line, figure)]
    axis = {"automargin": True, "zeroline": False}
    ends = figure.y_range or (figure.fitted or ())[:2]
    return {
        "data": traces,
        "layout": {
            "showlegend": False,
            "hovermode": "closest",
            "margin": {"l": 52, "r": 12, "t": 12, "b": 40},
            "xaxis": {**axis, "title": {"text": _text(figure.x_title)}},
            "yaxis": {
                **axis,
                "title": {"text": _text(figure.y_title)},
                "type": "log" if figure.log_y else "linear",
                **({"exponentformat": "power", "dtick": 1} if figure.log_y else {}),
                **({"range": _numbers(ends)} if ends else {}),
            },
        },
    }


def _trace(line: Line, figure: Figure) -> dict[str, Any]:
    hover = "%{fullData.name}<br>step %{x:,.0f}<br>%{y:.5~g}"
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": _mode(line),
        "name": _text(line.label),
        "x": _numbers(line.x),
        "y": _numbers(line.y, positive=figure.log_y),
        "line": {"color": line.colour, "dash": _dash(line.dash), "width": 2},
        "marker": {"color": line.colour, "size": 7},
        "meta": _meta(line),
        "visible": _visible(line, figure),
    }
    if line.counts is not None:
        edges = zip(line.low or line.y, line.high or line.y, strict=True)
        trace["customdata"] = list(zip(line.counts, map(_shown, edges), strict=True))
        hover += "%{customdata[1]}<br>runs: %{customdata[0]}"
    return {**trace, "hovertemplate": hover + "<extra></extra>"}


def _mode(line: Line) -> str:
    known = sum(map(math.isfinite, line.y))
    if known < 2:
        return "markers"
    return "lines+markers" if line.marked else "lines"


def _band(line: Line, figure: Figure) -> list[dict[str, Any]]:
    """The shading: one closed outline for each stretch that has both edges."""
    if line.low is None or line.high is None:
        return []
    x: list[float | None] = []
    y: list[float | None] = []
    stretch: list[tuple[float, float, float]] = []
    for point in [*zip(line.x, line.low, line.high, strict=True), (0.0, math.nan, math.nan)]:
        if all(map(math.isfinite, point)):
            stretch.append(point)
        elif stretch:
            x += [*_numbers([p[0] for p in stretch + stretch[::-1]]), None]
            y += [*_numbers([p[1] for p in stretch] + [p[2] for p in stretch[::-1]]), None]
            stretch = []
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": _text(line.label),
            "x": x[:-1],
            "y": y[:-1],
            "fill": "toself",
            "fillcolor": line.colour + "33",
            "line": {"width": 0, "color": line.colour},
            "hoverinfo": "skip",
            "meta": _meta(line),
            "visible": _visible(line, figure),
        }
    ]


def _meta(line: Line) -> dict[str, Any]:
    return {"group": legend_key(line), "view": line.view}


def legend_key(line: Line) -> str:
    """What ties the traces of a figure to an entry of its legend."""
    return f"reference-{line.group}" if line.reference else str(line.group)


def _visible(line: Line, figure: Figure) -> bool:
    return not line.reference and line.view in ("", *figure.views[:1])


def _text(text: str) -> str:
    # plotly.js draws a little HTML in labels and turns these three back.
    return html.escape(text, quote=False)


def _numbers(values: Sequence[float], positive: bool = False) -> list[float | None]:
    """Seven digits of each, and None, a gap in the line, for what cannot be drawn."""
    return [
        float(f"{v:.7g}") if math.isfinite(v) and (v > 0 or not positive) else None for v in values
    ]


def _shown(edges: tuple[float, float]) -> str:
    """The shading in words, which need not be alike on both sides."""
    return "" if any(map(math.isnan, edges)) else f" [{edges[0]:.4g}, {edges[1]:.4g}]"


def _dash(lengths: tuple[int, ...]) -> str:
    return ",".join(f"{length}px" for length in lengths) or "solid"
