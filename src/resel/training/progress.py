"""What a run tells while it goes on, and the line that shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from resel.methods import Learner

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class TrainProgress:
    """Where a run stands; given to callbacks after every step."""

    step: int
    total: int
    """Steps at which this call of `learn` ends."""
    updates: int
    episodes: int
    episode_return: float | None
    """Return of the last finished episode."""
    evaluation_return: float | None
    """Mean return of the last evaluation."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The last line of training, as in metrics.jsonl: losses, entropy, gradient norms, ..."""


Callback = Callable[[TrainProgress], bool | None]
"""Called after every step; returning False ends the training."""


class ProgressLine:
    """A live line: step, episode return, evaluation return, updates per second, time left."""

    def __init__(self, start: int, total: int, console: Console | None = None) -> None:
        # Not at the top: importing it draws from Python's global random stream.
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("step {task.completed:,.0f}/{task.total:,.0f}"),
            BarColumn(bar_width=24),
            TextColumn("episode {task.fields[episode]}  eval {task.fields[evaluation]}"),
            TextColumn("{task.fields[rate]} updates/s  left"),
            TimeRemainingColumn(),
            console=console,
            refresh_per_second=2,
            speed_estimate_period=120,
        )
        self._task = self._bar.add_task(
            "train", total=total, completed=start, episode="-", evaluation="-", rate="-"
        )
        self._shown = 0.0
        self._latest: TrainProgress | None = None
        self._mark = (time.monotonic(), 0)
        self._rate = "-"

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._latest is not None:
            self._show(self._latest)
        self._bar.stop()

    def __call__(self, progress: TrainProgress) -> None:
        self._latest = progress
        if time.monotonic() - self._shown > 0.5:
            self._show(progress)

    def _show(self, progress: TrainProgress) -> None:
        now = self._shown = time.monotonic()
        since, updates = self._mark
        if updates == 0:  # learning had not begun
            self._mark = (now, progress.updates)
        elif now - since > (1 if self._rate == "-" else 10):
            self._rate = f"{(progress.updates - updates) / (now - since):.0f}"
            self._mark = (now, progress.updates)
        self._bar.update(
            self._task,
            completed=progress.step,
            episode=_number(progress.episode_return),
            evaluation=_number(progress.evaluation_return),
            rate=self._rate,
        )


def describe_groups(learner: Learner) -> list[dict[str, object]]:
    """Every parameter group with its size and rate, as printed at start and written to the run."""
    return [
        {
            "network": network,
            "group": group.name,
            "parameters": group.count,
            "tensors": len(group.parameters),
            "learning_rate": float(torch_group["lr"]),
        }
        for network, groups in learner.groups.items()
        for group, torch_group in zip(groups, learner.optimizers[network].param_groups, strict=True)
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if abs(value) < 10 else f"{value:.0f}"
