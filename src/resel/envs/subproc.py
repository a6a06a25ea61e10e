"""An environment in a process of its own: it may crash or hang without taking the run along."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from resel.envs._worker_main import Player
from resel.envs.actions import ActionSpec
from resel.envs.checked import AnyEnv, CheckedEnv, EnvFactory, HowMade, StepResult, check_rebuilt
from resel.envs.critic_signal import CriticSignal
from resel.envs.recipe import Recipe
from resel.envs.spaces import Encoded, ObservationSpec
from resel.envs.told import Told
from resel.envs.worker import Worker


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
        self.name, self._signal = name, signal
        self.how_made = HowMade(make, signal, options)
        self._recipe = Recipe.of(name, self.how_made, "env_workers")
        self._worker = Worker(name, "env_workers", timeout, _EnvPlayer)
        self._launch()

    def ready(self) -> Self:
        """Wait until the environment is made."""
        try:
            observation, action, title, self.horizon = self._worker.answer()
            self.called = self._worker.called = f"{self.name} ({title})"
            if hasattr(self, "observation"):
                check_rebuilt(self, observation, action)
            unseen = self._signal.entries if self._signal else ()
            self.observation = ObservationSpec.of(observation, unseen)
            self.action = ActionSpec.of(action)
        except BaseException:
            self._worker.end()
            raise
        return self

    def reset(self, seed: int, task: int | None = None) -> Encoded:
        """Start an episode; the first observation. A process that has ended is started again."""
        if not self._worker.running:
            self.rebuild()
        self._steps = 0
        self._worker.ask("reset", (seed, task), f"reset(seed={seed})")
        observation: Encoded
        observation, told, self.untold = self._worker.answer()
        # Here as well: a process started anew knows no first reset.
        self.hear(told, self._worker.called)
        return observation

    def send(self, action: NDArray[np.float32]) -> None:
        """Let the process begin a step; it works on while others are sent theirs."""
        self._steps += 1
        self._worker.ask("step", action, f"step {self._steps} of an episode")

    def receive(self) -> StepResult:
        """Wait for the step to end."""
        outcome: StepResult = self._worker.answer()
        return outcome

    @property
    def can_rebuild(self) -> bool:
        """Always: the way to make it was sent to the process."""
        return True

    def rebuild(self) -> None:
        """End what is left and start a new process."""
        self._worker.end()
        self._launch()
        self.ready()

    def close(self) -> None:
        """Let the environment close itself; end its process if that takes too long."""
        self._worker.close()

    def _launch(self) -> None:
        self._steps = 0
        self._worker.launch("make", self._recipe)


class _EnvPlayer(Player):
    """Resets and steps an environment."""

    _env: CheckedEnv | None = None

    def make(self, recipe: Recipe) -> tuple[spaces.Space[Any], spaces.Space[Any], str, int | None]:
        """Make the environment; its spaces, title and horizon."""
        env = self._env = recipe.make(self.notices.append)
        return env.env.observation_space, env.env.action_space, env.title, env.horizon

    def reset(self, asked: tuple[int, int | None]) -> tuple[Encoded, Told, str | None]:
        assert self._env is not None
        return self._env.reset(*asked), self._env.told, self._env.untold

    def step(self, action: NDArray[np.float32]) -> StepResult:
        assert self._env is not None
        return self._env.step(action)

    def close(self) -> None:
        if self._env is not None:
            self._env.close()
