"""An experiment of seconds, for tests: encoders in the T-maze, and what their runs have to equal.

As a program it is the sweep itself, for tests that kill it, one run at a time or on a Ray cluster:
python tiny_sweep.py OUT STEPS SEEDS [RAY_ADDRESS]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from resel.experiments import Experiment, Setting, Study, Sweep, reproduce
from resel.runs import read_bundle, read_metrics

SETTINGS: dict[str, Any] = {
    "width": 8,
    "embedding": 4,
    "head_width": 8,
    "n_critics": 2,
    "batch_steps": 30,
    "warmup_steps": 30,
    "buffer_steps": 1000,
    "eval_every": 20,
    "eval_episodes": 2,
    "checkpoint_every": 20,
    "log_every": 10,
    "device": "cpu",
}


def tiny_experiment(
    steps: int = 60, seeds: int = 1, encoders: tuple[str, ...] = ("gru", "mlp")
) -> Experiment:
    settings = [
        Setting("TMaze-v0", {**SETTINGS, "steps": steps, "encoder": encoder}, encoder)
        for encoder in encoders
    ]
    study = Study(tuple(settings), tuple(range(1, seeds + 1)))
    return Experiment("fig-tiny", "A tiny figure", "fig.none", "curves", {"smoke": study})


def tiny_sweep(out: Path, experiment: Experiment | None = None, **more: Any) -> Sweep:
    chosen = experiment or tiny_experiment()
    return Sweep([chosen], "smoke", out, "resel reproduce fig-tiny", **more)


def assert_same_run(one: Path, other: Path) -> None:
    """Bit by bit, but for what the clock says."""
    assert _result(one) == _result(other)
    assert _recorded(one) == _recorded(other)
    for agent in ("agents/last", "agents/best"):
        ours, theirs = (
            read_bundle(run / agent, "agent").tensors["weights"] for run in (one, other)
        )
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def _result(run: Path) -> dict[str, Any]:
    result = json.loads((run / "result.json").read_text())
    del result["wall_seconds"], result["cpu_seconds"]
    return dict(result)


def _recorded(run: Path) -> list[dict[str, Any]]:
    return [line for line in read_metrics(run / "metrics.jsonl") if line["kind"] != "timing"]


if __name__ == "__main__":
    folder, steps, seeds, *cluster = sys.argv[1:]
    way: dict[str, Any] = {"engine": "ray", "ray_address": cluster[0]} if cluster else {"jobs": 1}
    figure = tiny_experiment(int(steps), int(seeds))
    sys.exit(reproduce(tiny_sweep(Path(folder), figure, **way), Console(width=200)))
