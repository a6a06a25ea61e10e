"""A process that answers questions: it may crash or hang without taking the run along."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
import weakref
from collections.abc import Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from resel.envs._worker_main import BEAT, Player, serve
from resel.envs.checked import warn_user
from resel.errors import EnvironmentFault, ReselError

SECONDS_TO_START = 120.0
"""Least time for importing everything and making the environment."""
_SECONDS_TO_CLOSE = 5.0
_START = "its start"
_SLICE = 0.5


class Worker:
    """A process that is started afresh (`spawn`), so nothing is shared with it.

    In it a `player` does what is asked for, one question at a time. An answer that takes more than
    `timeout` seconds is a fault of the environment in it, which is called `name`; `setting` is the
    setting that asks for the process.
    """

    def __init__(self, name: str, setting: str, timeout: float, player: type[Player]) -> None:
        self.called = name
        """The subject of messages."""
        self._name, self._setting, self._timeout = name, setting, timeout
        self._player = player
        self._process: SpawnProcess | None = None

    @property
    def running(self) -> bool:
        """Whether there is a process, as far as is known."""
        return self._process is not None

    def launch(self, verb: str, argument: Any) -> None:
        """Start the process and ask it to get ready; it works on while others are started."""
        self._number = BEAT
        self._message: tuple[Any, ...] | None = None
        context = multiprocessing.get_context("spawn")
        self._pipe: Connection
        self._pipe, theirs = context.Pipe()
        process = context.Process(
            target=serve, args=(theirs, self._player, self._name), daemon=True
        )
        with _without_ctrl_c():
            process.start()
        self._process = process
        theirs.close()
        assert process.pid is not None
        # Also when nobody closes us; the programs an environment starts would outlive it.
        self._end_group = weakref.finalize(self, _end_group, process.pid, os.getpid())
        self.ask(verb, argument, _START, max(self._timeout, SECONDS_TO_START))

    def ask(self, verb: str, argument: Any, where: str, seconds: float | None = None) -> None:
        """Put a question; `where` says what it is about, `seconds` how long the answer may take."""
        self._number += 1
        self._message, self._where, self._seconds = None, where, seconds or self._timeout
        with contextlib.suppress(OSError):  # a process that has gone is found out by `answer`
            self._pipe.send((self._number, verb, argument))

    def has_answered(self) -> bool:
        """Whether `answer` will not have to wait."""
        try:
            while self._message is None and self._pipe.poll(0):
                self._receive()
        except (EOFError, OSError):
            return True
        return self._message is not None

    def answer(self) -> Any:
        """The answer to the last question."""
        try:
            while self._message is None:
                self._wait()
                self._receive()
        except (EOFError, OSError) as error:
            raise self._died() from error
        (value, fault, notices), self._message = self._message, None
        for notice in notices:
            warn_user(notice)
        if fault is not None:
            raised: ReselError = fault.kind(fault.message)
            raised.add_note(f"In the environment's process:\n{fault.traceback}")
            if isinstance(raised, EnvironmentFault):
                raised.own_traceback = fault.own_traceback
            raise raised
        return value

    def close(self) -> None:
        """Let the environment close itself; end its process if that takes too long."""
        if self._process is None:
            return
        with contextlib.suppress(OSError):
            self._pipe.send(None)
        self._process.join(_SECONDS_TO_CLOSE)
        self.end()

    def end(self) -> int:
        """End the process and what it has started at once; its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        self._end_group()
        process.kill()  # it may not have made its group yet
        process.join()
        self._pipe.close()
        return process.exitcode or 0

    def _receive(self) -> None:
        """Take in a message: the answer, an older one of an interrupted wait, or a sign of life."""
        number, *message = self._pipe.recv()
        if number == self._number:
            self._message = tuple(message)
        elif number == BEAT:
            self._seconds = self._timeout

    def _wait(self) -> None:
        """Until there is a message, or for as long as it may take.

        Counted in slices: while a scheduler stops all of us, no time is held against anybody.
        """
        left = self._seconds
        while not self._pipe.poll(min(left, _SLICE)):
            left -= _SLICE
            if left <= 0:
                raise self._hung()

    def _hung(self) -> EnvironmentFault:
        self.end()
        return EnvironmentFault(
            f"{self.called} took longer than {self._seconds:g} s for {self._where}, and its "
            "process was ended. If it is only slow, raise env_timeout."
        )

    def _died(self) -> EnvironmentFault:
        if self._process is None:
            return EnvironmentFault(f"{self.called}: its process ended before {self._where}.")
        self._process.join(1.0)  # its pipe closes a little before it has an exit code
        code = self.end()
        if code == -signal.SIGTERM:
            time.sleep(0.5)  # whoever ends a whole job is about to end us too, in good order
        name = next((known.name for known in signal.Signals if known == -code), f"signal {-code}")
        how = f"was ended by {name}" if code < 0 else f"ended with exit code {code}"
        hint = " Perhaps memory ran out." if code == -signal.SIGKILL else ""
        if self._where == _START:
            hint = (
                f" What it printed says why; a script that uses {self._setting} must begin its "
                'work under `if __name__ == "__main__":`.'
            )
        return EnvironmentFault(f"{self.called}: its process {how} at {self._where}.{hint}")


def _end_group(group: int, owner: int) -> None:
    if os.getpid() == owner:  # and not a copy of it
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


@contextlib.contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach before they can say that they ignore it."""
    resource_tracker.ensure_running()  # starting it later would end the block too early
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
