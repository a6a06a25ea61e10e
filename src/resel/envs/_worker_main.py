"""The inside of a worker's process: it answers one question after the other.

Questions are (number, verb, argument), answers (number, value, fault, notices); None asks to leave.
The other end is `resel.envs.worker`.
"""

from __future__ import annotations

import contextlib
import fcntl
import multiprocessing
import os
import pickle
import select
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import NamedTuple

from resel.envs.tracebacks import own_traceback
from resel.errors import EnvironmentFault, ReselError

BEAT = 0
"""The number of a message that says only that the work goes on."""


class Fault(NamedTuple):
    """What went wrong, in a form that can always be sent."""

    kind: type[ReselError]
    message: str
    traceback: str
    own_traceback: str
    """The part of it that is the environment's."""


class Player:
    """Does what is asked for, one method for each verb. `beat` says that the work goes on."""

    def __init__(self, beat: Callable[[], None]) -> None:
        self.beat = beat
        self.notices: list[str] = []
        """What is told along with the next answer."""

    def close(self) -> None:
        """Release what was made."""


def serve(pipe: Connection, player_type: type[Player], name: str) -> None:
    """Play until asked to leave, or until nobody is left to ask."""
    _settle()
    player = player_type(lambda: pipe.send((BEAT, None, None, ())))
    with contextlib.suppress(EOFError, ConnectionError):  # the other end has gone
        while (request := pipe.recv()) is not None:
            number, verb, argument = request
            try:
                value, fault = getattr(player, verb)(argument), None
                pickle.dumps(value)
            except Exception as error:
                value, fault = None, _describe(error, name)
            pipe.send((number, value, fault, tuple(player.notices)))
            player.notices.clear()
    player.close()


def _describe(error: Exception, name: str) -> Fault:
    trace = "".join(traceback.format_exception(error))
    own = own_traceback(error)
    if isinstance(error, ReselError):
        return Fault(type(error), str(error), trace, own)
    return Fault(EnvironmentFault, f"{name} raised {type(error).__name__}: {error}", trace, own)


def _settle() -> None:
    """Leave Ctrl-C to the process that started us, and end when that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # A group of our own, so that programs the environment has started can be ended with it.
    os.setpgid(0, 0)
    parent = multiprocessing.parent_process()
    assert parent is not None, "serve runs in a process started for it"
    # The far end of this pipe closes with the parent, however that ends. The kernel then sends
    # SIGIO, which ends the whole group even where an environment hangs and never reads on.
    fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, -os.getpgrp())
    flags = fcntl.fcntl(parent.sentinel, fcntl.F_GETFL)
    fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, flags | os.O_ASYNC)
    if select.select([parent.sentinel], [], [], 0)[0]:  # it ended before the pipe was watched
        os._exit(1)
