"""What a run tells while it goes on, and the line that shows it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from resel.methods import Learner
from resel.networks import is_compiling
from resel.training.pace import Pace, in_words

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
    updates_left: int = 0
    """Updates until `total`, if episodes end in time for them."""


PLAIN_SECONDS = 60.0
"""Between two lines where the output is no terminal."""
_WIDE = 110
"""Columns from which on there is room for a bar."""
Callback = Callable[[TrainProgress], bool | None]
"""Called after every step; returning False ends the training."""


def awaits_evaluation(callback: Callback, history: Sequence[tuple[int, float, float]]) -> bool:
    """Whether a callback has to know the next evaluation when it is called after its step.

    It says so by a method of this name, which is given the evaluations before.
    """
    own = getattr(callback, "awaits_evaluation", None)
    return own is not None and bool(own(history))


class ProgressLine:
    """What a run tells while it goes on: a live line, or a plain one every minute.

    Step, episode return, evaluation return, updates per second, and the time that is left at the
    recent rate of updates. A thread of its own keeps it alive while a single step takes minutes.
    """

    def __init__(
        self, start: int, total: int, console: Console | None = None, learning_from: int = 0
    ) -> None:
        # Not at the top: importing it draws from Python's global random stream.
        from rich import get_console

        self._console = console or get_console()
        self._latest = TrainProgress(start, total, 0, 0, None, None)
        self._learning_from, self._pace, self._shown = learning_from, Pace(), 0.0
        self._view = (_LiveView if _is_live(self._console) else _PlainView)(self._console, self)

    def __enter__(self) -> Self:
        is_compiling()  # from now on it is watched
        self._view.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._view.stop()

    def __call__(self, progress: TrainProgress) -> None:
        self._latest = progress
        now = time.monotonic()
        self._pace.see(progress.updates, now)
        if now - self._shown > 0.5:
            self._shown = now
            self._view.show(progress)

    @property
    def latest(self) -> TrainProgress:
        """Where the run stands."""
        return self._latest

    def __str__(self) -> str:
        """All but the step, as of this moment."""
        progress, rate = self._latest, self._pace.rate
        shown = "-" if rate is None else f"{rate:.2g}" if rate < 10 else f"{rate:.0f}"
        return (
            f"left {self._left()}  {shown} updates/s  episode {_number(progress.episode_return)}  "
            f"eval {_number(progress.evaluation_return)}"
        )

    def _left(self) -> str:
        progress = self._latest
        if is_compiling():
            return "unknown (compiling kernels)"
        if progress.updates:
            return in_words(self._pace.left(progress.updates_left))
        if progress.step < self._learning_from:
            return "unknown (warm-up)"
        return "unknown (no episode has ended yet)" if not progress.episodes else in_words(None)


class _LiveView:
    """One line that is drawn again and again, with a sign of life at its front."""

    def __init__(self, console: Console, line: ProgressLine) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        parts = [
            SpinnerColumn(),
            TextColumn("step {task.completed:,.0f}/{task.total:,.0f}"),
            BarColumn(bar_width=16),
            TextColumn("{task.fields[line]}"),
        ]
        if console.width < _WIDE:
            del parts[2]
        self._bar = Progress(*parts, console=console, refresh_per_second=2)
        self._line = line
        begun = line.latest
        self._task = self._bar.add_task("train", total=begun.total, completed=begun.step, line=line)
        self.start = self._bar.start

    def stop(self) -> None:
        self.show(self._line.latest)
        self._bar.stop()

    def show(self, progress: TrainProgress) -> None:
        self._bar.update(self._task, completed=progress.step)


class _PlainView:
    """A line every minute, for files, pipes and the logs of schedulers."""

    def __init__(self, console: Console, line: ProgressLine) -> None:
        self._console, self._line = console, line
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tell_now_and_then, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        self._tell()

    def show(self, progress: TrainProgress) -> None:
        """Nothing: the thread looks by itself."""

    def _tell_now_and_then(self) -> None:
        while not self._ended.wait(PLAIN_SECONDS):
            self._tell()

    def _tell(self) -> None:
        now, begun = time.strftime("%H:%M:%S"), self._line.latest
        self._console.print(
            f"{now}  step {begun.step:,}/{begun.total:,}  {self._line}", soft_wrap=True
        )


def _is_live(console: Console) -> bool:
    """Whether a line can be drawn over another."""
    return (console.is_terminal and not console.is_dumb_terminal) or console.is_jupyter


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
