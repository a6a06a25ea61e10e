"""What all pictures share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

_COLUMNS = 4


def panels(count: int, width: float = 3.6, height: float = 3.0) -> tuple[Any, list[Any]]:
    """A figure with so many axes, in rows of four."""
    from matplotlib.figure import Figure  # slow to import, and only pictures need it

    columns = min(count, _COLUMNS)
    rows = -(-count // columns)
    figure = Figure(figsize=(max(width * columns, 5.0), height * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in axes[count:]:
        unused.set_axis_off()
    for used in axes[:count]:
        used.grid(alpha=0.3)
        for side in ("top", "right"):
            used.spines[side].set_visible(False)
    return figure, axes[:count]


def save(figure: Any, folder: Path, name: str) -> list[str]:
    """As PNG and SVG; the names of the files."""
    files = [f"{name}.png", f"{name}.svg"]
    for file in files:
        figure.savefig(folder / file, dpi=130)
    return files


def legend(figure: Any, axes: Sequence[Any]) -> None:
    """One legend under all panels, if there is more than one line."""
    found = {
        label: handle
        for ax in axes
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    if len(found) > 1:
        figure.legend(
            found.values(), found.keys(), loc="outside lower center", ncols=4, frameon=False
        )


def colours(groups: Iterable[str]) -> dict[str, str]:
    """The same colour for the same line in all panels."""
    return {group: f"C{index % 10}" for index, group in enumerate(dict.fromkeys(groups))}
