"""What a search says while it goes on: lines, and a table where somebody watches."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from resel.experiments import read_state
from resel.training import duration
from resel.tuning._clock import Clock
from resel.tuning._trials import Trials, Work

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live

_EVERY = 2.0


class Progress:
    """`tick` is what the engine calls."""

    def __init__(
        self, trials: Trials, clock: Clock, console: Console, check: Callable[[], None]
    ) -> None:
        self._trials, self._clock, self._console = trials, clock, console
        self._check = check
        self._live: Live | None = None
        self._shown = 0.0
        trials.told_trial = self._tell

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            from rich.live import Live  # not at the top: importing it draws random numbers

            self._live = Live(self._table(), console=self._console, refresh_per_second=2)
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live is not None:
            self._live.stop()

    def tick(self) -> None:
        """Look at the trials, and draw again now and then."""
        self._check()
        self._clock.tick()
        self._trials.look()
        if self._live is not None and time.monotonic() - self._shown > _EVERY:
            self._shown = time.monotonic()
            self._live.update(self._table())

    def _tell(self, work: Work, text: str) -> None:
        self._console.print(
            f"Trial {work.number}: {text}", soft_wrap=True, markup=False, highlight=False
        )

    def _table(self) -> Group:
        from rich.console import Group
        from rich.table import Table

        left = self._clock.left
        title = f"{len(self._trials.works)} trials under way"
        title += "" if left is None else f", {duration(max(0.0, left))} left"
        table = Table("trial", "seed", "step", "evaluation", box=None)
        for run, work in self._trials.works.items():
            state = read_state(self._trials.entries[run].job)
            score = "-" if state.evaluation is None else f"{state.evaluation:.4g}"
            row: list[Any] = [work.number, work.seed, f"{state.step:,}", score]
            table.add_row(*map(str, row))
        return Group(title, table)
