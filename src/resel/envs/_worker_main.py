"""The inside of an environment's own process: it answers one request after the other.

Requests are (number, verb, argument), answers (number, value, fault, notices); None asks to leave.
The other end is `resel.envs.subproc`.
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
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from resel.envs.checked import CheckedEnv, StepResult, build, title
from resel.envs.spaces import Encoded
from resel.envs.told import Told
from resel.envs.tracebacks import own_traceback
from resel.errors import EnvironmentFault, ReselError


class Fault(NamedTuple):
    """What went wrong, in a form that can always be sent."""

    kind: type[ReselError]
    message: str
    traceback: str
    own_traceback: str
    """The part of it that is the environment's."""


class _Player:
    """Does what is asked for, one method for each verb."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.notices: list[str] = []
        self._name, self._options = name, options
        self._env: CheckedEnv | None = None

    def make(self, recipe: bytes) -> tuple[spaces.Space[Any], spaces.Space[Any], str, int | None]:
        """Make the environment that the pickled function makes; its spaces, title and horizon."""
        try:
            make, read = pickle.loads(recipe)
        except Exception as error:
            raise EnvironmentFault(
                f"{self._name} cannot be made in a process of its own, where the function that "
                f"makes it is not found ({type(error).__name__}: {error}). Define it in a module "
                "that can be imported."
            ) from error
        try:
            signal = pickle.loads(read)
        except Exception as error:
            raise EnvironmentFault(
                f"{self._name}: the function given as critic_observations is not found in a "
                f"process of its own ({type(error).__name__}: {error}). Define it in a module that "
                "can be imported."
            ) from error
        env = build(make, self._name)
        self._env = CheckedEnv(
            env, name=self._name, tell=self.notices.append, signal=signal, **self._options
        )
        return env.observation_space, env.action_space, title(env), self._env.horizon

    def reset(self, asked: tuple[int, int | None]) -> tuple[Encoded, Told, str | None]:
        assert self._env is not None
        return self._env.reset(*asked), self._env.told, self._env.untold

    def step(self, action: NDArray[np.float32]) -> StepResult:
        assert self._env is not None
        return self._env.step(action)

    def close(self) -> None:
        if self._env is not None:
            self._env.close()


def serve(pipe: Connection, name: str, options: dict[str, Any]) -> None:
    """Play until asked to leave, or until nobody is left to ask."""
    _settle()
    player = _Player(name, options)
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
