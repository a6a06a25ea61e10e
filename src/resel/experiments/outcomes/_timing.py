"""Time of an update by encoder, depth and trajectory length, from `resel bench scaling`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from resel.benchmarks import ScalingBench, run
from resel.errors import DamagedFileError
from resel.experiments._settings import Experiment, Study
from resel.experiments.outcomes._curves import write_rows
from resel.experiments.outcomes._pictures import panels, save
from resel.experiments.paper_numbers import paper_table

_METHODS = {"mlp": "FC", "mamba": "Mamba", "gru": "GRU"}
_BLOCK_COLUMNS = ("blocks", "encoder", "update_ms", "normalized", "memory_mb")
_PAPER_COLUMNS = ("paper_update_ms", "paper_normalized", "paper_gpu_memory_mb")


def make_timing(experiment: Experiment, study: Study, folder: Path) -> list[str]:
    """The table over blocks, or the figure over lengths; both come from one measurement."""
    points = _measured(study, folder.parent / "timing")
    if experiment.table:
        return _blocks(points, experiment.table, folder)
    return _lengths(experiment, points, folder)


def _measured(study: Study, folder: Path) -> list[dict[str, Any]]:
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
        points: list[dict[str, Any]] = json.loads(path.read_bytes())["points"]
    except (ValueError, KeyError) as error:
        raise DamagedFileError(f"{path} cannot be read ({error}): delete it.") from error
    return points


def _blocks(points: Sequence[dict[str, Any]], table: str, folder: Path) -> list[str]:
    """As the paper's table: times also in units of the GRU's."""
    paper = {(p.task, p.method): p.mean for p in paper_table(table)}
    chosen = [point for point in points if "blocks" in point["sweeps"]]
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
            point["update_ms"],
            100 * point["update_ms"] / gru[blocks],
            point["memory_mb"],
        )
        columns = (*_BLOCK_COLUMNS, *_PAPER_COLUMNS)
        rows.append(dict(zip(columns, (*ours, *printed), strict=True)))
    write_rows(folder / "table.csv", rows, (*_BLOCK_COLUMNS, *_PAPER_COLUMNS))
    return ["table.csv"]


def _lengths(experiment: Experiment, points: Sequence[dict[str, Any]], folder: Path) -> list[str]:
    chosen = [point for point in points if "length" in point["sweeps"]]
    columns = ("encoder", "length", "steps", "update_ms", "memory_mb")
    write_rows(folder / "length.csv", [{c: point[c] for c in columns} for point in chosen], columns)
    figure, (ax,) = panels(1, width=5.5, height=3.8)
    for encoder in dict.fromkeys(point["encoder"] for point in chosen):
        line = sorted((p["length"], p["update_ms"]) for p in chosen if p["encoder"] == encoder)
        ax.plot(*zip(*line, strict=True), marker="o", label=encoder)
    ax.set(xscale="log", yscale="log", xlabel="trajectory length", ylabel="ms per update")
    ax.legend(frameon=False)
    ax.set_title(experiment.title)
    return ["length.csv", *save(figure, folder, "length")]
