"""The live table of a sweep; plain lines where nobody watches."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from resel.experiments.engines import Entry, Ledger, Status, read_state
from resel.training import duration

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live

_EVERY = 2.0
_SHOWN = 12
_WHAT_NEXT: dict[Status, str] = {"waiting": " (will be tried again)", "failed": " (given up)"}


@dataclass
class SweepTable:
    """Shows a ledger while an engine works through it; `tick` is what the engine calls."""

    ledger: Ledger
    console: Console
    _begun: float = 0.0
    _shown: float = 0.0
    _at_start: float = 0.0
    _live: Live | None = None

    def __post_init__(self) -> None:
        self.ledger.changed = self._tell
        self._begun, self._at_start = time.monotonic(), self._done()

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            from rich.live import Live  # not at the top: importing it draws random numbers

            self._live = Live(self._table(), console=self.console, refresh_per_second=2)
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live is not None:
            self._live.update(self._table())
            self._live.stop()

    def tick(self) -> None:
        """Draw again, now and then."""
        if self._live is not None and time.monotonic() - self._shown > _EVERY:
            self._shown = time.monotonic()
            self._live.update(self._table())

    def _tell(self, entry: Entry) -> None:
        if self._live is not None and entry.problem is None:
            return
        text = f"{entry.job.run.name}: {entry.status}"
        if entry.problem is not None:
            text = f"{entry.job.run.name}: {entry.problem}{_WHAT_NEXT.get(entry.status, '')}"
        self.console.print(text, soft_wrap=True, markup=False)

    def _work(self, entry: Entry) -> float:
        """What a job takes, in seconds; one for all if nothing was measured."""
        return entry.job.seconds or float(entry.job.steps) or 1.0

    def _done(self) -> float:
        total = 0.0
        for entry in self.ledger.entries.values():
            share = 1.0
            if entry.status in ("waiting", "running"):
                share = min(1.0, read_state(entry.job).step / max(1, entry.job.steps))
            total += share * self._work(entry)
        return total

    def _left(self) -> str:
        """Time left, from the pace so far."""
        done = self._done()
        made, elapsed = done - self._at_start, time.monotonic() - self._begun
        if made <= 0 or elapsed < _EVERY:
            return "-"
        remaining = sum(map(self._work, self.ledger.entries.values())) - done
        return duration(remaining * elapsed / made)

    def _table(self) -> Group:
        from rich.console import Group
        from rich.table import Table

        entries = self.ledger.entries.values()
        finished = self.ledger.count("completed", "diverged")
        title = (
            f"{finished} of {len(entries)} runs done, {self.ledger.count('running')} running, "
            f"{self.ledger.count('failed')} failed, left {self._left()}"
        )
        table = Table("run", "", "step", "evaluation", box=None)
        shown = [entry for entry in entries if entry.status in ("running", "failed")]
        for entry in shown[:_SHOWN]:
            state = read_state(entry.job)
            score = "-" if state.evaluation is None else f"{state.evaluation:.4g}"
            step = f"{state.step:,}/{entry.job.steps:,}"
            table.add_row(entry.job.run.name, entry.status, step, score)
        if len(shown) > _SHOWN:
            table.add_row(f"and {len(shown) - _SHOWN} more")
        return Group(title, table)
