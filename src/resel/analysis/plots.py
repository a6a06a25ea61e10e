"""The one way in which pictures are drawn and saved; matplotlib is known nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

EVALUATED = "return (deterministic policy)"
"""Title of the axis wherever evaluations are drawn."""
STEPS = "environment steps"

_UNDATED = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def panels(
    count: int, width: float = 3.6, height: float = 3.0, columns: int = 4
) -> tuple[Any, list[Any]]:
    """A figure with so many axes, in rows of at most `columns`."""
    from matplotlib.figure import Figure  # slow to import, and only pictures need it

    columns = min(count, columns)
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


def curve(
    axes: Any,
    x: Sequence[float],
    y: Sequence[float],
    edges: tuple[Sequence[float], Sequence[float]] | None = None,
    **style: Any,
) -> None:
    """A line, shaded between its lower and its upper edge."""
    (line,) = axes.plot(x, y, **style)
    if edges is not None:
        axes.fill_between(x, *edges, color=line.get_color(), alpha=0.2, linewidth=0)


def around(y: Sequence[float], spread: Sequence[float]) -> tuple[list[float], list[float]]:
    """The edges of a curve, so much below and above it."""
    both = list(zip(y, spread, strict=True))
    return [middle - off for middle, off in both], [middle + off for middle, off in both]


def legend(
    figure: Any, axes: Sequence[Any], columns: int = 4, least: int = 2, **style: Any
) -> None:
    """One legend under all panels, if there are at least so many lines, no wider than they are."""
    found = {
        label: handle
        for ax in axes
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    if len(found) >= least:
        place = {"loc": "outside lower center", "frameon": False}
        for ncols in range(columns, 0, -1):
            made = figure.legend(found.values(), found.keys(), ncols=ncols, **place, **style)
            if ncols == 1 or made.get_window_extent().width <= figure.bbox.width:
                break
            made.remove()


def looks(groups: Iterable[str]) -> dict[str, dict[str, str]]:
    """The same colour for the same line in all panels; after ten lines the next ten are dashed."""
    styles = ("-", "--", "-.")
    return {
        group: {"color": f"C{index % 10}", "linestyle": styles[index // 10 % len(styles)]}
        for index, group in enumerate(dict.fromkeys(groups))
    }


def save(figure: Any, path: Path, dpi: int = 130) -> None:
    """Write a picture; the name says as what. The same figure always gives the same file."""
    import matplotlib

    # Fixed ids, and words that stay words.
    with matplotlib.rc_context({"svg.hashsalt": "resel", "svg.fonttype": "none"}):
        figure.savefig(path, dpi=dpi, metadata=_UNDATED.get(path.suffix))


def save_both(figure: Any, folder: Path, name: str, dpi: int = 130) -> list[str]:
    """As PNG and SVG; the names of the files."""
    files = [f"{name}.png", f"{name}.svg"]
    for file in files:
        save(figure, folder / file, dpi)
    return files
