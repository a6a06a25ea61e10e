"""Tables as people read them."""

from __future__ import annotations

from collections.abc import Sequence


def page(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], *notes: str) -> str:
    """A title, a table, and what is to be known about it."""
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    lines.insert(1, "|" + "---|" * len(head))
    return "\n".join([f"# {title}", "", *lines, *(f"\n{note}" for note in notes), ""])


def score(mean: float | None, error: float | None = None) -> str:
    """A number with what it is uncertain by, if that is known."""
    if mean is None or mean != mean:
        return "-"
    return short(mean) if error is None or error != error else f"{short(mean)} ± {short(error)}"


def count(value: float) -> str:
    """A whole number, such as steps."""
    return "-" if value != value else f"{value:,.0f}"


def short(value: float) -> str:
    """Three digits."""
    return "-" if value != value else f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
