"""An environment in a process of its own: it may crash or hang without taking the run along."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import time
import weakref
from collections.abc import Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from resel.envs._worker_main import serve
from resel.envs.actions import ActionSpec
from resel.envs.checked import AnyEnv, EnvFactory, StepResult, check_rebuilt, warn_user
from resel.envs.critic_signal import CriticSignal
from resel.envs.spaces import Encoded, ObservationSpec
from resel.errors import ConfigError, EnvironmentFault, ReselError

_SECONDS_TO_START = 120.0
"""Least time for importing everything and making the environment."""
_SECONDS_TO_CLOSE = 5.0
_START = "its start"
_SLICE = 0.5


class SubprocEnv(AnyEnv):
    """One environment in a process that is started afresh (`spawn`), so nothing is shared with it.

    A reset or step that takes more than `timeout` seconds is a fault. The process is started at
    once, so that several start together; call `ready` before anything else. `options` are those of
    `CheckedEnv`.
    """

    def __init__(
        self,
        make: EnvFactory,
        timeout: float,
        *,
        name: str = "The environment",
        signal: CriticSignal | None = None,
        **options: Any,
    ) -> None:
        self.name, self._called, self._timeout = name, name, timeout
        self._recipe, self._signal, self._options = _pickled(make, signal), signal, options
        self._launch()

    def ready(self) -> Self:
        """Wait until the environment is made."""
        try:
            observation, action, title, self.horizon = self._answer()
            self._called = f"{self.name} ({title})"
            if hasattr(self, "observation"):
                check_rebuilt(self, observation, action)
            unseen = self._signal.entries if self._signal else ()
            self.observation = ObservationSpec.of(observation, unseen)
            self.action = ActionSpec.of(action)
        except BaseException:
            self._end()
            raise
        return self

    def reset(self, seed: int, task: int | None = None) -> Encoded:
        """Start an episode; the first observation. A process that has ended is started again."""
        if self._process is None:
            self.rebuild()
        self._steps = 0
        self._ask("reset", (seed, task), f"reset(seed={seed})")
        observation: Encoded
        observation, told, self.untold = self._answer()
        self.hear(told, self._called)  # here as well: a process started anew knows no first reset
        return observation

    def send(self, action: NDArray[np.float32]) -> None:
        """Let the process begin a step; it works on while others are sent theirs."""
        self._steps += 1
        self._ask("step", action, f"step {self._steps} of an episode")

    def receive(self) -> StepResult:
        """Wait for the step to end."""
        outcome: StepResult = self._answer()
        return outcome

    @property
    def can_rebuild(self) -> bool:
        """Always: the way to make it was sent to the process."""
        return True

    def rebuild(self) -> None:
        """End what is left and start a new process."""
        self._end()
        self._launch()
        self.ready()

    def close(self) -> None:
        """Let the environment close itself; end its process if that takes too long."""
        if self._process is None:
            return
        with contextlib.suppress(OSError):
            self._pipe.send(None)
        self._process.join(_SECONDS_TO_CLOSE)
        self._end()

    def _launch(self) -> None:
        self._number, self._steps = 0, 0
        context = multiprocessing.get_context("spawn")
        self._pipe: Connection
        self._pipe, theirs = context.Pipe()
        self._process: SpawnProcess | None = context.Process(
            target=serve, args=(theirs, self.name, self._options), daemon=True
        )
        with _without_ctrl_c():
            self._process.start()
        theirs.close()
        assert self._process.pid is not None
        # Also when nobody closes us; the programs an environment starts would outlive it.
        self._end_group = weakref.finalize(self, _end_group, self._process.pid, os.getpid())
        self._ask("make", self._recipe, _START, max(self._timeout, _SECONDS_TO_START))

    def _ask(self, verb: str, argument: Any, where: str, seconds: float | None = None) -> None:
        self._number += 1
        self._where, self._seconds = where, seconds or self._timeout
        with contextlib.suppress(OSError):  # a process that has gone is found out by `_answer`
            self._pipe.send((self._number, verb, argument))

    def _answer(self) -> Any:
        """The answer to the last question."""
        number = 0
        try:
            while number != self._number:  # an interrupted wait leaves an older answer behind
                self._wait()
                number, value, fault, notices = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise self._died() from error
        for notice in notices:
            warn_user(notice)
        if fault is not None:
            raised: ReselError = fault.kind(fault.message)
            raised.add_note(f"In the environment's process:\n{fault.traceback}")
            if isinstance(raised, EnvironmentFault):
                raised.own_traceback = fault.own_traceback
            raise raised
        return value

    def _wait(self) -> None:
        """Until there is an answer, or for as long as it may take.

        Counted in slices: while a scheduler stops all of us, no time is held against anybody.
        """
        left = self._seconds
        while not self._pipe.poll(min(left, _SLICE)):
            left -= _SLICE
            if left <= 0:
                raise self._hung()

    def _hung(self) -> EnvironmentFault:
        self._end()
        return EnvironmentFault(
            f"{self._called} took longer than {self._seconds:g} s for {self._where}, and its "
            "process was ended. If it is only slow, raise env_timeout."
        )

    def _died(self) -> EnvironmentFault:
        if self._process is None:
            return EnvironmentFault(f"{self._called}: its process ended before {self._where}.")
        self._process.join(1.0)  # its pipe closes a little before it has an exit code
        code = self._end()
        if code == -signal.SIGTERM:
            time.sleep(0.5)  # whoever ends a whole job is about to end us too, in good order
        name = next((known.name for known in signal.Signals if known == -code), f"signal {-code}")
        how = f"was ended by {name}" if code < 0 else f"ended with exit code {code}"
        hint = " Perhaps memory ran out." if code == -signal.SIGKILL else ""
        if self._where == _START:
            hint = (
                " What it printed says why; a script that uses env_workers must begin its work "
                'under `if __name__ == "__main__":`.'
            )
        return EnvironmentFault(f"{self._called}: its process {how} at {self._where}.{hint}")

    def _end(self) -> int:
        """End the process and what it has started; its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        self._end_group()
        process.kill()  # it may not have made its group yet
        process.join()
        self._pipe.close()
        return process.exitcode or 0


def _end_group(group: int, owner: int) -> None:
    if os.getpid() == owner:  # and not a copy of it
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


def _pickled(make: EnvFactory, signal: CriticSignal | None) -> bytes:
    try:
        read = pickle.dumps(signal)
    except Exception as error:
        raise ConfigError(
            "env_workers=True sends the function given as critic_observations to other processes, "
            f"and this one cannot be sent ({error}). Define it with `def` at the top of a module, "
            "or leave env_workers off."
        ) from error
    try:
        return pickle.dumps((make, read))
    except Exception as error:
        raise ConfigError(
            f"env_workers=True sends the function that makes the environment to other processes, "
            f"and this one cannot be sent ({error}). Define it with `def` at the top of a module, "
            "without a lambda or an environment inside, or leave env_workers off."
        ) from error


@contextlib.contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach before they can say that they ignore it."""
    resource_tracker.ensure_running()  # starting it later would end the block too early
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
