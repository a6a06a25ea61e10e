"""Run directories without training: made-up numbers in the files of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from resel.agent import configure
from resel.runs import MetricsLog, RunDirectory

MACHINE: dict[str, Any] = {
    "python": "3.11.7",
    "platform": "Linux",
    "cpu": "Some processor",
    "cores": 2,
    "memory_bytes": 8 * 2**30,
    "gpu": None,
    "device": "cpu",
    "threads": 1,
    "versions": {"resel": "0.1.0", "torch": "2.13.0"},
    "parameter_groups": [
        {
            "network": "policy",
            "group": "context_encoder",
            "parameters": 33248,
            "tensors": 8,
            "learning_rate": 0.0003,
        }
    ],
}


def write_run(
    path: Path,
    returns: Sequence[float],
    task: str = "TMaze-v0",
    status: str | None = "completed",
    success: bool = False,
    broken_at: int | None = None,
    events: Sequence[dict[str, Any]] = (),
    train_lines: int = 0,
    ended_at: int | None = None,
    **settings: Any,
) -> Path:
    """A run with an evaluation every 1000 steps; without a status it has no result."""
    config = configure(task, preset="paper", **settings)
    with RunDirectory.create(path, config.to_json()) as run:
        run.write_environment(MACHINE)
        with MetricsLog(run, tensorboard=False) as log:
            for index, value in enumerate(returns):
                _write_lines(log, 1000 * index, value, success, broken_at == index)
            for number in range(train_lines):
                log.write("train", number, {"critic_loss": math.sin(number)})
            for event in events:
                log.write("event", 1000, event)
        if status is not None:
            last = list(returns)[1:][-5:]  # the first is at step 0
            run.write_result(
                {
                    "status": status,
                    "steps": 1000 * (len(returns) - 1) if ended_at is None else ended_at,
                    "eval_return_mean": sum(last) / len(last) if last else None,
                    "updates": 100,
                    "wall_seconds": 90.0,
                }
            )
    return path


def _write_lines(log: MetricsLog, step: int, value: float, success: bool, broken: bool) -> None:
    drift = step / 4000  # a figure of what never changes is not drawn
    measured = {"return_mean": value, "return_std": 2.0, "length_mean": 20.0}
    log.write("eval", step, measured | ({"success_rate": min(0.5 + drift, 1)} if success else {}))
    log.write(
        "train",
        step,
        {
            "gradient_norm/critic/context_encoder": 5.0,
            "gradient_norm/policy/other": 0.5 + drift,
            "policy_loss": -1.5 + drift,
            "critic_loss": math.nan if broken else 4.25 + drift,
            "entropy": 1.25 - drift,
            "q_mean": 0.375 + drift,
            "target_mean": 1.0,
            "alpha": 0.75 - drift,
            "padding_share": 0.0,
            "episode_return": value - 1,
        },
    )
    updates = 40.0 + drift if step else 0.0  # the first record is of the warm-up, which is fast
    timing = {"updates_per_second": updates, "steps_per_second": updates or 900.0}
    log.write("timing", step, timing | {"seconds": step / 40})
