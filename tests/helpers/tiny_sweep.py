"""An experiment of seconds, for tests: two encoders in the T-maze, one seed each.

As a program it is the sweep itself, for tests that kill it:  python tiny_sweep.py OUT STEPS
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from resel.experiments import Experiment, Setting, Study, Sweep, reproduce

SETTINGS: dict[str, Any] = {
    "width": 8,
    "embedding": 4,
    "head_width": 8,
    "state_size": 4,
    "critics": 2,
    "batch_steps": 30,
    "warmup_steps": 30,
    "buffer_steps": 1000,
    "eval_every": 20,
    "eval_episodes": 2,
    "checkpoint_every": 20,
    "log_every": 10,
    "device": "cpu",
}


def tiny_experiment(steps: int = 60, seeds: tuple[int, ...] = (1,)) -> Experiment:
    settings = [
        Setting("TMaze-v0", {**SETTINGS, "steps": steps, "encoder": encoder}, encoder)
        for encoder in ("gru", "mlp")
    ]
    study = Study(tuple(settings), seeds)
    return Experiment("fig-tiny", "A tiny figure", "fig.none", "curves", {"smoke": study})


def tiny_sweep(out: Path, steps: int = 60, **more: Any) -> Sweep:
    return Sweep([tiny_experiment(steps)], "smoke", out, "resel reproduce fig-tiny", **more)


if __name__ == "__main__":
    sys.exit(reproduce(tiny_sweep(Path(sys.argv[1]), int(sys.argv[2])), Console()))
