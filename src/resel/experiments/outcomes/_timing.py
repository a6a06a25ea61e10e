"""Time of an update by encoder and depth, and of the recurrent blocks alone by length.

Both come from `resel bench scaling`, which measures the CPU; the paper's numbers are of a GPU.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from resel.analysis.paper import paper_table
from resel.analysis.plots import legend, looks, panels, save_both
from resel.benchmarks import ScalingBench, run
from resel.errors import DamagedFileError
from resel.experiments._settings import Experiment, Study
from resel.experiments.outcomes._curves import write_rows

_METHODS = {"mlp": "FC", "mamba": "Mamba", "gru": "GRU"}
_BLOCK_COLUMNS = ("blocks", "encoder", "device", "threads", "update_ms", "normalized", "memory_mb")
_PAPER_COLUMNS = ("paper_update_ms", "paper_normalized", "paper_gpu_memory_mb")


def make_timing(experiment: Experiment, study: Study, folder: Path) -> list[str]:
    """The table over blocks, or the figure over lengths; both come from one measurement."""
    measured = _measured(study, folder.parent / "timing")
    try:
        if experiment.table:
            return _blocks(measured, experiment.table, folder)
        return _lengths(experiment, measured, folder)
    except (LookupError, TypeError) as error:
        raise DamagedFileError(
            f"{folder.parent / 'timing'} cannot be read ({error!r} is missing): delete it."
        ) from error


def _measured(study: Study, folder: Path) -> dict[str, Any]:
    """Read, or measured and written for the next one to read."""
    numbers = study.numbers
    path = folder / f"scaling-{numbers['size']}{'-quick' if numbers['quick'] else ''}.json"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        bench = ScalingBench(size=numbers["size"], quick=numbers["quick"])
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(run(bench), indent=1), encoding="utf-8")
        temporary.replace(path)
    try:
        measured: dict[str, Any] = json.loads(path.read_bytes())
    except ValueError as error:
        raise DamagedFileError(f"{path} cannot be read ({error}): delete it.") from error
    return measured


def _blocks(measured: dict[str, Any], table: str, folder: Path) -> list[str]:
    """As the paper's table: times also in units of the GRU's."""
    paper = {(p.task, p.method): p.mean for p in paper_table(table)}
    chosen = [point for point in measured["points"] if "blocks" in point["sweeps"]]
    gru = {p["blocks"]: p["update_ms"] for p in chosen if p["encoder"] == "gru"}
    rows = []
    for point in sorted(chosen, key=lambda p: (p["blocks"], p["update_ms"])):
        blocks, method = point["blocks"], _METHODS[point["encoder"]]
        place = f"HalfCheetah-v2|layers={blocks}|"
        printed = [
            paper.get((place + name, method))
            for name in ("update_time_ms", "normalized_time_pct", "gpu_memory_mb")
        ]
        ours = (
            blocks,
            point["encoder"],
            "cpu",
            measured["threads"],
            point["update_ms"],
            100 * point["update_ms"] / gru[blocks],
            point["memory_mb"],
        )
        columns = (*_BLOCK_COLUMNS, *_PAPER_COLUMNS)
        rows.append(dict(zip(columns, (*ours, *printed), strict=True)))
    write_rows(folder / "table.csv", rows, (*_BLOCK_COLUMNS, *_PAPER_COLUMNS))
    return ["table.csv"]


def _lengths(experiment: Experiment, measured: dict[str, Any], folder: Path) -> list[str]:
    """As the paper's figure: the blocks alone over one trajectory, forward and backward."""
    layers, ways = measured["layers"], ("forward", "backward")
    columns = ("encoder", "length", *(f"{way}_ms" for way in ways))
    write_rows(folder / "length.csv", [{c: layer[c] for c in columns} for layer in layers], columns)
    figure, axes = panels(2)
    look = looks(layer["encoder"] for layer in layers)
    for ax, way in zip(axes, ways, strict=True):
        for encoder in look:
            here = [layer for layer in layers if layer["encoder"] == encoder]
            line = sorted((layer["length"], layer[f"{way}_ms"]) for layer in here)
            x, y = zip(*line, strict=True)
            ax.plot(x, y, marker="o", label=encoder, **look[encoder])
        ax.set(xscale="log", yscale="log", xlabel="trajectory length", title=way)
    axes[0].set_ylabel(f"ms on a CPU, threads: {measured['threads']}")
    legend(figure, axes)
    figure.suptitle(experiment.title)
    return ["length.csv", *save_both(figure, folder, "length")]
