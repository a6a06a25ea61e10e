"""What is done about an environment that fails: it is made anew, as often as the run allows."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from resel.envs.checked import warn_user
from resel.errors import EnvironmentFault

Record = Callable[[Mapping[str, str | int]], None]


class Rebuilt(Protocol):
    """An environment, or a process with one, as far as it can be made anew."""

    name: str

    @property
    def can_rebuild(self) -> bool:
        """Whether `rebuild` knows how."""

    def rebuild(self) -> None:
        """Put a new one in the place of one that failed."""

    def reset(self, seed: int) -> Any:
        """Start an episode."""


class Restarts:
    """Makes environments anew after a fault, up to `allowed` times in all, and records each."""

    def __init__(self, allowed: int = 0, record: Record = lambda event: None) -> None:
        self._allowed, self._record = allowed, record
        self.used = 0

    def recover(self, env: Rebuilt, fault: EnvironmentFault, record: Record | None = None) -> None:
        """Leave `env` ready for a reset, or raise the fault.

        The episode it was in is lost; dropping its record is up to the caller. `record` takes the
        place of the usual one.
        """
        record = record or self._record
        while True:
            again = env.can_rebuild and self.used < self._allowed
            self.used += again
            record(
                {
                    "event": "environment restarted" if again else "environment failed",
                    "environment": env.name,
                    "message": str(fault),
                    "traceback": "".join(traceback.format_exception(fault)),
                    "restarts": self.used,
                }
            )
            if not again:
                raise fault
            warn_user(
                f"{fault} It is made anew (restart {self.used} of {self._allowed}) and the "
                "unfinished episode dropped."
            )
            try:
                env.rebuild()
                # Some simulators carry their construction into the first episode only.
                env.reset(0)
            except EnvironmentFault as next_fault:
                fault = next_fault
            else:
                return
