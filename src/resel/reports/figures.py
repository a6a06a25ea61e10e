"""A figure before it is drawn: the same lines go to the page, to pictures and to tables."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from resel.reports.axis import fitted_axis

Drawn = TypeVar("Drawn", "Figure", "Figure | Chart")
MOST_POINTS = 1000
"""Points of a line on the page; pictures and tables get all of them."""
_FEW_POINTS = 30

# Okabe and Ito's colours without black and yellow, which vanish on a dark or light page.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c8c8c")
_DASHES: tuple[tuple[int, ...], ...] = ((), (8, 4), (2, 3), (8, 3, 2, 3), (14, 4), (14, 3, 2, 3))


@dataclass(frozen=True)
class Line:
    """Values against steps. Lines of one `group` share a colour, a dash and a legend entry."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    counts: Sequence[int] | None = None
    """How many runs each value is the mean of."""
    group: int = 0
    view: str = ""
    """Which of the figure's views shows it; empty for all."""
    reference: bool = False
    """A number of others to compare with: drawn when asked for."""

    @property
    def colour(self) -> str:
        return _COLOURS[self.group % len(_COLOURS)]

    @property
    def dash(self) -> tuple[int, ...]:
        """Lengths of strokes and gaps in pixels; none for a solid line."""
        return (2, 2) if self.reference else _DASHES[self.group % len(_DASHES)]

    @property
    def marked(self) -> bool:
        """Whether there are so few points that each gets a mark."""
        return len(self.x) < _FEW_POINTS and not self.reference


@dataclass(frozen=True)
class Figure:
    """Lines with the words around them; axis titles name the unit."""

    name: str
    """Of its files: letters, digits, dots, dashes."""
    title: str
    y_title: str
    lines: Sequence[Line]
    note: str = ""
    x_title: str = "environment steps"
    log_y: bool = False
    fit: bool = False
    """Whether the axis is fitted to what was learned."""
    y_range: tuple[float, float] | None = None
    """Of a quantity whose ends are known."""

    @property
    def fitted(self) -> tuple[float, float, float] | None:
        """The ends of the fitted axis and the lowest value that is cut off; None for all values."""
        if not self.fit:
            return None
        shown = [line for line in self.lines if not line.reference]
        edges = [(line.x, y) for line in shown for y in (line.low, line.high) if y is not None]
        return fitted_axis([(line.x, line.y) for line in shown], edges)

    @property
    def constants(self) -> list[tuple[Line, float]] | None:
        """Each line and its value, if none of them ever changes."""
        values = [set(line.y) for line in self.lines]
        if any(len(own) != 1 or not math.isfinite(*own) for own in values):
            return None
        return [(line, own.pop()) for line, own in zip(self.lines, values, strict=True)]

    @property
    def views(self) -> list[str]:
        """The views a reader can choose from, the first one shown first."""
        return list(dict.fromkeys(line.view for line in self.lines if line.view))

    @property
    def legend(self) -> list[Line]:
        """One line for each group."""
        first: dict[tuple[int, bool], Line] = {}
        for line in self.lines:
            first.setdefault((line.group, line.reference), line)
        return list(first.values())


@dataclass(frozen=True)
class Chart:
    """A figure that is no lines over steps: traces and layout as plotly.js takes them."""

    name: str
    title: str
    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    note: str = ""
    lines: Sequence[Line] = ()
    views: Sequence[str] = ()
    legend: Sequence[Line] = ()
    fitted: None = None


def file_name(text: str) -> str:
    """A part of a file name from any text."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "figure"


def own_names(names: Iterable[str]) -> list[str]:
    """The names, with a number where one was there before, whatever the case of its letters."""
    used: set[str] = set()
    given = []
    for wanted in names:
        name, number = wanted, 1
        while name.lower() in used:
            number += 1
            name = f"{wanted}-{number}"
        used.add(name.lower())
        given.append(name)
    return given


def with_own_names(figures: Sequence[Drawn]) -> list[Drawn]:
    """The figures with names that differ."""
    names = own_names(figure.name for figure in figures)
    return [replace(f, name=name) for f, name in zip(figures, names, strict=True)]


def thin(line: Line, most: int = MOST_POINTS) -> Line:
    """A line of at most `most` points: the lowest and the highest of each stretch of it."""
    if len(line.x) <= most:
        return line
    kept = _extremes(np.asarray(line.y, dtype=float), most // 2)

    def pick(values: Sequence[float] | None) -> list[float] | None:
        return None if values is None else [values[i] for i in kept]

    return replace(
        line,
        x=[line.x[i] for i in kept],
        y=[line.y[i] for i in kept],
        low=pick(line.low),
        high=pick(line.high),
        counts=None if line.counts is None else [line.counts[i] for i in kept],
    )


def _extremes(values: NDArray[np.float64], stretches: int) -> list[int]:
    edges = np.linspace(0, len(values), stretches + 1).astype(int)
    kept: set[int] = set()
    for start, end in itertools.pairwise(edges):
        part = values[start:end]
        # NaN counts as both ends, so that a gap in the line stays one.
        kept |= {start + int(np.argmin(part)), start + int(np.argmax(part))}
    return sorted(kept)
