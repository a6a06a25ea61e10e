"""One number over the seeds of a row, as columns of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from resel.analysis.statistics import interquartile_estimate, mean_and_error
from resel.experiments.outcomes._markdown import score, short

_PARTS = ("mean", "standard_error", "iqm", "iqm_low", "iqm_high")


def columns(name: str) -> tuple[str, ...]:
    """The columns that `over_seeds` fills."""
    return tuple(f"{name}_{part}" for part in _PARTS)


def over_seeds(name: str, values: Iterable[float | None]) -> dict[str, float]:
    """Mean and standard error, interquartile mean with its interval; None counts as missing."""
    found = [value for value in values if value is not None]
    parts = (*mean_and_error(found), *interquartile_estimate([found]))
    return dict(zip(columns(name), parts, strict=True))


def in_words(name: str, row: Mapping[str, Any]) -> str:
    """Mean ± standard error and, where there is more than one seed, the interval."""
    mean, error, _, low, high = (row[column] for column in columns(name))
    words = score(mean, error)
    return f"{words} [{short(low)}, {short(high)}]" if error == error else words
