"""Figures for papers: PNG and SVG, and the numbers as CSV."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from resel.analysis import plots
from resel.errors import ConfigError
from resel.reports.figures import Figure, Line


def write_pictures(figures: Sequence[Figure], folder: Path) -> list[Path]:
    """NAME.png, NAME.svg and NAME.csv of each figure, with all of its points."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for figure in figures:
            _draw(figure, folder)
            _write_csv(figure, folder / f"{figure.name}.csv")
    except OSError as error:
        raise ConfigError(
            f"--figures {folder} cannot be written to ({error.strerror}). Choose another folder."
        ) from error
    return [folder / f"{f.name}{end}" for f in figures for end in (".png", ".svg", ".csv")]


def _draw(figure: Figure, folder: Path) -> None:
    """The first view of a figure; the others and the references are in the table."""
    canvas, (axes,) = plots.panels(1, width=6.4, height=4.0)
    for line in figure.lines:
        if line.view in ("", *figure.views[:1]) and not line.reference:
            _draw_line(line, axes)
    axes.set_xlabel(figure.x_title, parse_math=False)
    axes.set_ylabel(figure.y_title, parse_math=False)
    axes.set_title(figure.title, fontsize=11, parse_math=False)
    if figure.log_y:
        axes.set_yscale("log")
    for text in axes.legend(frameon=False, fontsize=8).get_texts():
        text.set_parse_math(False)
    plots.save_both(canvas, folder, figure.name, dpi=200)


def _draw_line(line: Line, axes: Any) -> None:
    dashes = (0, tuple(length / 2 for length in line.dash)) if line.dash else "-"
    # A leading underscore would hide the line from the legend.
    label = line.label if not line.label.startswith("_") else f" {line.label}"
    style = {"label": label, "color": line.colour, "linestyle": dashes, "markersize": 4}
    edges = None if line.low is None or line.high is None else (line.low, line.high)
    plots.curve(axes, line.x, line.y, edges, marker="o" if line.marked else "", **style)


def _write_csv(figure: Figure, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["line", "view", figure.x_title, figure.y_title, "low", "high", "runs"])
        for line in figure.lines:
            blank = [""] * len(line.x)
            columns = (line.x, line.y, line.low or blank, line.high or blank, line.counts or blank)
            for x, y, low, high, runs in zip(*columns, strict=True):
                writer.writerow([line.label, line.view, x, y, low, high, runs])
