"""Figures for papers: PNG and SVG by matplotlib, and the numbers as CSV."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from resel.errors import ConfigError
from resel.reports.figures import Figure, Line


def write_pictures(figures: Sequence[Figure], folder: Path) -> list[Path]:
    """NAME.png, NAME.svg and NAME.csv of each figure, with all of its points."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for figure in figures:
            _draw(figure, folder / figure.name)
            _write_csv(figure, folder / f"{figure.name}.csv")
    except OSError as error:
        raise ConfigError(
            f"--figures {folder} cannot be written to ({error.strerror}). Choose another folder."
        ) from error
    return [folder / f"{f.name}{end}" for f in figures for end in (".png", ".svg", ".csv")]


def _draw(figure: Figure, path: Path) -> None:
    """The first view of a figure; the others and the references are in the table."""
    import matplotlib  # slow to import, and only pictures need it
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(6.4, 4.0), layout="constrained")
    axes = canvas.subplots()
    for line in figure.lines:
        if line.view in ("", *figure.views[:1]) and not line.reference:
            _draw_line(line, axes)
    axes.set_xlabel(figure.x_title, parse_math=False)
    axes.set_ylabel(figure.y_title, parse_math=False)
    axes.set_title(figure.title, fontsize=11, parse_math=False)
    if figure.log_y:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for text in axes.legend(frameon=False, fontsize=8).get_texts():
        text.set_parse_math(False)
    # Without a date and with fixed ids, the same runs give the same files.
    with matplotlib.rc_context({"svg.hashsalt": "resel", "svg.fonttype": "none"}):
        canvas.savefig(path.with_name(path.name + ".png"), dpi=200)
        canvas.savefig(path.with_name(path.name + ".svg"), metadata={"Date": None})


def _draw_line(line: Line, axes: object) -> None:
    style = (0, tuple(length / 2 for length in line.dash)) if line.dash else "-"
    marker = "o" if line.marked else ""
    # A leading underscore would hide the line from the legend.
    label = line.label if not line.label.startswith("_") else f" {line.label}"
    axes.plot(  # type: ignore[attr-defined]
        line.x, line.y, label=label, color=line.colour, linestyle=style, marker=marker, markersize=4
    )
    if line.low is not None and line.high is not None:
        axes.fill_between(  # type: ignore[attr-defined]
            line.x, line.low, line.high, color=line.colour, alpha=0.2, linewidth=0
        )


def _write_csv(figure: Figure, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["line", "view", figure.x_title, figure.y_title, "low", "high", "runs"])
        for line in figure.lines:
            blank = [""] * len(line.x)
            columns = (line.x, line.y, line.low or blank, line.high or blank, line.counts or blank)
            for x, y, low, high, runs in zip(*columns, strict=True):
                writer.writerow([line.label, line.view, x, y, low, high, runs])
