"""Environments that fail on command; imported by name, also in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class World(gymnasium.Env[Any, Any]):
    """Random numbers for five steps, and at step `at` of its life what `fault` says.

    With `once` (a path), only if nothing is there yet: an environment made anew then behaves.
    """

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Box(-1, 1, (1,))

    def __init__(self, fault: str = "", at: int = 12, once: str = "", length: int = 5) -> None:
        self.fault, self.at, self.once, self.length = fault, at, once, length
        self.steps = 0
        if fault == "program":
            self.program = subprocess.Popen(["sleep", "1000"])
            Path(f"{once}.pid").write_text(str(self.program.pid))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        if self.fault == "reset" and self.steps >= self.at and self._now():
            raise ConnectionError("the simulator is busy")
        return self._observation(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        self.time += 1
        if self.fault != "reset" and self.steps == self.at and self._now():
            self._fail()
        reward = float(action[0]) + float(self.np_random.uniform())
        return self._observation(), reward, self.time == self.length, False, {"success": True}

    def _observation(self) -> Any:
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)

    def _now(self) -> bool:
        if self.once and Path(self.once).exists():
            return False
        if self.once:
            Path(self.once).touch()
        return True

    def _fail(self) -> None:
        match self.fault:
            case "step":
                raise ZeroDivisionError("division by zero")
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "stopped":
                os.kill(os.getpid(), signal.SIGSTOP)
                time.sleep(1000)  # it takes effect a moment later
            case "hang" | "program":
                time.sleep(1000)
            case "exit":
                os._exit(7)
            case "leave":
                sys.exit("enough")


class Meeting(World):
    """Waits in every step until the other one is there too; `names` are files in `folder`."""

    def __init__(self, folder: str, mine: str, other: str) -> None:
        super().__init__()
        self.folder, self.mine, self.other = Path(folder), mine, other

    def step(self, action: Any) -> Any:
        (self.folder / f"{self.mine}-{self.steps}").touch()
        while not (self.folder / f"{self.other}-{self.steps}").exists():
            time.sleep(0.001)
        return super().step(action)


def unlike() -> Any:
    """Other spaces each time it is called."""
    world = World()
    unlike.calls = getattr(unlike, "calls", 1) + 1  # type: ignore[attr-defined]
    world.observation_space = spaces.Box(-1, 1, (unlike.calls,))  # type: ignore[attr-defined]
    return world


gymnasium.register(
    "World-v0",
    World,
    max_episode_steps=50,
    kwargs={
        "fault": os.environ.get("WORLD_FAULT", ""),
        "once": os.environ.get("WORLD_ONCE", ""),
        "at": int(os.environ.get("WORLD_AT", "12")),
    },
)
