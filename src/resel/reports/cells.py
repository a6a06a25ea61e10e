"""What stands in a table: numbers of a column look alike, and each sorts by its value."""

from __future__ import annotations

import datetime
import html
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

_DIGITS = 4
_SMALLEST = 0.01
"""Columns of smaller numbers are written as 0.0003 or 4.8e-05, each with its own digits."""


@dataclass(frozen=True)
class Html:
    """Text that is markup already; every other string is escaped."""

    text: str


@dataclass(frozen=True)
class Shown:
    """A number that is shown in words of its own."""

    value: float
    text: str


@dataclass(frozen=True)
class Measured:
    """A number with what is known about how sure it is."""

    value: float
    error: float = math.nan
    interval: tuple[float, float] | None = None

    @property
    def numbers(self) -> list[float]:
        return [self.value, self.error, *(self.interval or ())]

    def written(self, form: Callable[[float], str]) -> str:
        """`value ± error` or `value [low, high]`."""
        if self.interval is not None:
            return f"{form(self.value)} [{', '.join(map(form, self.interval))}]"
        return form(self.value) + ("" if math.isnan(self.error) else f" ± {form(self.error)}")


Cell = str | int | float | None | Html | Shown | Measured


def escape(text: object) -> str:
    """Text that a browser shows as it is."""
    return html.escape(str(text), quote=True)


def number(value: float | None) -> str:
    """A number that stands alone: four digits, or all of them before the point."""
    if value is None or math.isnan(value):
        return "–"
    if isinstance(value, int) or (math.isfinite(value) and abs(value) >= 1000):
        return f"{value:,.0f}"
    return f"{value:.{_DIGITS}g}"


def with_error(mean: float | None, error: float) -> Measured | None:
    """`mean ± error`."""
    return None if mean is None else Measured(mean, error)


def with_interval(value: float, low: float, high: float) -> Measured | None:
    """`value [low, high]`."""
    return None if math.isnan(value) else Measured(value, interval=(low, high))


def share(value: float | None) -> Shown | None:
    """A part of one as percents."""
    return None if value is None or math.isnan(value) else Shown(value, f"{value:.0%}")


def clock(seconds: float | None) -> Shown | None:
    """Hours, minutes and seconds, for columns."""
    return (
        None if seconds is None else Shown(seconds, str(datetime.timedelta(seconds=round(seconds))))
    )


def duration(seconds: float | None) -> Shown | None:
    """Seconds as people say them."""
    if seconds is None:
        return None
    minutes = seconds / 60
    if minutes < 2:
        return Shown(seconds, f"{seconds:.0f} s")
    return Shown(seconds, f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h")


def moment(when: datetime.datetime) -> Shown:
    """A date with its time of day."""
    return Shown(when.timestamp(), f"{when:%Y-%m-%d %H:%M} {when.tzname() or ''}".strip())


def column_cells(column: Sequence[Cell]) -> list[str]:
    """The cells of a column as markup; the numbers among them with the same decimals."""
    form = _common_form(column)
    return [_written(cell, form) for cell in column]


def is_numeric(column: Sequence[Cell]) -> bool:
    """Whether a column holds numbers and nothing else, and so stands at its right edge."""
    known = [cell for cell in column if cell is not None]
    return bool(known) and all(
        isinstance(cell, int | float | Shown | Measured) and not isinstance(cell, bool)
        for cell in known
    )


def plain(value: Cell) -> str:
    """A cell that stands alone."""
    return _written(value, number)


def _written(value: Cell, form: Callable[[float], str]) -> str:
    match value:
        case None:
            return "–"
        case Html():
            return value.text
        case str() | bool():
            return escape(value)
        case Shown():
            return _sorted_by(value.value, escape(value.text))
        case Measured():
            return _sorted_by(value.value, value.written(form))
    return _sorted_by(value, form(value))


def _sorted_by(value: float, shown: str) -> str:
    key = "" if math.isnan(value) else f"{float(value)!r}".replace("inf", "Infinity")
    return f'<span class="number" data-value="{key}">{shown}</span>'


def _common_form(column: Sequence[Cell]) -> Callable[[float], str]:
    values = [_value(cell) for cell in column]
    sizes = [abs(value) for value in values if math.isfinite(value) and value]
    if not sizes or max(sizes) < _SMALLEST or all(isinstance(v, int) for v in values):
        return number
    decimals = max(0, _DIGITS - 1 - math.floor(math.log10(statistics.median(sizes))))
    if round(min(sizes), decimals) == 0:  # too far apart for one form
        return number
    numbers = [n for cell in column for n in _numbers(cell) if math.isfinite(n)]
    while decimals and all(round(n, decimals) == round(n, decimals - 1) for n in numbers):
        decimals -= 1
    return lambda value: f"{value:,.{decimals}f}" if math.isfinite(value) else number(value)


def _value(cell: Cell) -> float:
    if isinstance(cell, Measured):
        return cell.value
    return cell if isinstance(cell, int | float) and not isinstance(cell, bool) else math.nan


def _numbers(cell: Cell) -> Iterable[float]:
    return cell.numbers if isinstance(cell, Measured) else [_value(cell)]
