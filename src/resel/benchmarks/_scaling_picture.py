"""The picture of `resel bench scaling`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from resel.analysis import plots

_PANELS = (
    ("length", "length", "trajectory length", "update_ms", "ms per update"),
    ("length", "length", "trajectory length", "memory_mb", "MB per update"),
    ("batch", "steps", "steps of the batch, in trajectories of 1000", "update_ms", "ms per update"),
    ("blocks", "blocks", "blocks, 1000 steps", "update_ms", "ms per update"),
)
"""Sweep, what runs along x and its label, what runs along y and its label."""


def draw_scaling(points: Sequence[dict[str, Any]], size: str, path: Path) -> None:
    """One panel for each thing that is varied, one line for each encoder."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    figure, panels = plots.panels(len(_PANELS), width=4.5, height=3.2, columns=2)
    for axes, (sweep, x, x_label, y, y_label) in zip(panels, _PANELS, strict=True):
        chosen = [point for point in points if sweep in point["sweeps"]]
        for encoder in dict.fromkeys(point["encoder"] for point in chosen):
            line = sorted((p[x], p[y]) for p in chosen if p["encoder"] == encoder)
            axes.plot(*zip(*line, strict=True), marker="o", markersize=4, label=encoder)
        if sweep != "blocks":
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
                axis.set_minor_formatter(NullFormatter())
        if sweep == "length":
            axes.axvline(1000, color="grey", linewidth=0.8, linestyle=":")
        axes.set_xticks(sorted({point[x] for point in chosen}))
        if sweep == "blocks":
            axes.set_ylim(bottom=0)
        axes.tick_params(axis="x", labelsize=7, labelrotation=30 if sweep == "length" else 0)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
    panels[0].legend(frameon=False)
    figure.suptitle(f"One update, {size} network (left of the dotted line a batch has 1000 steps)")
    plots.save(figure, path)
