"""Evaluations in a process of their own, of weights as they were, while learning goes on."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from resel.config import Config
from resel.envs import AnyEnv, CheckedEnv, Encoded, Player, Recipe, Worker
from resel.errors import ConfigError, ReselError
from resel.methods import Learner, build_learner
from resel.networks import Dimensions, PolicyDistribution
from resel.training.actor import Actor, PolicyState
from resel.training.evaluation import Evaluation, evaluate

SETTING = "eval_parallel"
_SECONDS_TO_COMPILE = 300.0
"""What a first action may take on top of a step."""
_SECONDS_OF_SILENCE = 0.2
"""Between two signs of life."""


@dataclass(frozen=True)
class Snapshot:
    """An agent as it was, or is, at a step."""

    step: int
    updates: int
    weights: Mapping[str, Tensor]

    @classmethod
    def of(cls, learner: Learner, step: int) -> Snapshot:
        """A copy, which does not change as learning goes on."""
        copies = {name: weight.detach().cpu().clone() for name, weight in learner.weights().items()}
        return cls(step, learner.updates, copies)


class Judge:
    """Plays with weights that come from elsewhere. `beat` is called now and then meanwhile."""

    def __init__(
        self, config: Config, dims: Dimensions, device: torch.device, beat: Callable[[], None]
    ) -> None:
        self._learner = build_learner(config, dims, device)
        self._actor = _BeatingActor(self._learner, beat)

    def evaluate(
        self, weights: Mapping[str, Tensor], env: AnyEnv, seeds: Sequence[int]
    ) -> Evaluation:
        """What `evaluate` gives for the learner that has these weights."""
        self._learner.load_weights({**self._learner.weights(), **weights})
        return evaluate(self._actor, env, list(seeds))


class _BeatingActor(Actor):
    def __init__(self, learner: Learner, beat: Callable[[], None]) -> None:
        super().__init__(learner)
        self._beat, self._last = beat, 0.0

    def observe(
        self, observation: Encoded, reward: NDArray[np.float32], state: PolicyState
    ) -> tuple[PolicyDistribution, PolicyState]:
        found = super().observe(observation, reward, state)
        if (now := time.monotonic()) - self._last > _SECONDS_OF_SILENCE:
            self._last = now
            self._beat()
        return found


class CannotStartError(Exception):
    """Evaluations cannot be played in another process; the reason is in words."""


class _Given(NamedTuple):
    """What the process needs to know."""

    recipe: Recipe
    config: bytes
    dims: Dimensions
    device: str
    threads: int


class EvaluationWorker:
    """The process, and the evaluation under way in it.

    Weights are sent once it is there, so that nobody waits for it to start.
    """

    can_rebuild = True

    def __init__(self, learner: Learner, env: AnyEnv, timeout: float) -> None:
        if env.how_made is None:
            raise CannotStartError(
                f"{env.name} was given as an object, and another process has to make its own. "
                "Give a name or a function that makes it."
            )
        self.name, self._timeout = env.name, timeout
        try:
            recipe = Recipe.of(env.name, env.how_made, SETTING)
            config = pickle.dumps(learner.config)
        except ConfigError as error:
            raise CannotStartError(str(error)) from error
        except Exception as error:
            raise CannotStartError(f"The settings cannot be sent ({error}).") from error
        threads = torch.get_num_threads()
        self._given = _Given(recipe, config, learner.dims, str(learner.device), threads)
        self._acting = frozenset(learner.acting_weights())
        self._worker = Worker(env.name, SETTING, timeout, _JudgePlayer)
        self._asked: tuple[dict[str, NDArray[Any]], list[int]] | None = None
        self._starting = False

    @property
    def busy(self) -> bool:
        """Whether there is an evaluation whose end nobody has heard of."""
        return self._asked is not None

    def begin(self, weights: Mapping[str, Tensor], seeds: Sequence[int]) -> None:
        """Let an evaluation begin."""
        acting = {name: w.numpy() for name, w in weights.items() if name in self._acting}
        self._asked = acting, list(seeds)
        if self._worker.running:
            self._send()
        else:
            self._launch()

    def has_finished(self) -> bool:
        """Whether `result` will not have to wait."""
        if self._starting and self._worker.has_answered():
            self._wait_for_start()
        return not self._starting and self._worker.has_answered()

    def result(self) -> tuple[Evaluation, float]:
        """What the evaluation gave, and the processor time of the process since the last one."""
        if self._starting:
            self._wait_for_start()
        try:
            found: tuple[Evaluation, float] = self._worker.answer()
        finally:
            self._asked = None
        return found

    def rebuild(self) -> None:
        """A new process; the evaluation has to begin again."""
        self._worker.end()
        self._launch()
        self._worker.answer()
        self._starting = False

    def reset(self, seed: int) -> None:
        """Try the environment."""
        self._worker.ask("reset", seed, f"reset(seed={seed})")
        self._worker.answer()

    def close(self) -> None:
        """End the process, at once if there is an evaluation under way."""
        if self.busy:
            self._worker.end()
        self._worker.close()
        self._asked, self._starting = None, False

    def _launch(self) -> None:
        self._starting = True
        self._worker.launch("make", self._given)

    def _wait_for_start(self) -> None:
        try:
            self._worker.answer()
        except ReselError as error:
            self._worker.end()
            raise CannotStartError(str(error)) from error
        self._starting = False
        self._send()

    def _send(self) -> None:
        seconds = self._timeout + _SECONDS_TO_COMPILE
        self._worker.ask("evaluate", self._asked, "a reset or step", seconds)


class _JudgePlayer(Player):
    """Makes the environment and the networks, and plays."""

    _env: CheckedEnv | None = None

    def make(self, given: _Given) -> None:
        torch.set_num_threads(given.threads)  # or the numbers might be others
        self._env = given.recipe.make(self.notices.append)
        try:
            config = pickle.loads(given.config)
        except Exception as error:
            raise ConfigError(f"The settings cannot be read there ({error}).") from error
        device = torch.device(given.device)
        self._judge, self._counted = Judge(config, given.dims, device, self.beat), 0.0

    def reset(self, seed: int) -> None:
        assert self._env is not None
        self._env.reset(seed)

    def evaluate(
        self, asked: tuple[dict[str, NDArray[Any]], list[int]]
    ) -> tuple[Evaluation, float]:
        assert self._env is not None
        weights = {name: torch.from_numpy(array) for name, array in asked[0].items()}
        result = self._judge.evaluate(weights, self._env, asked[1])
        before, self._counted = self._counted, time.process_time()
        return result, self._counted - before

    def close(self) -> None:
        if self._env is not None:
            self._env.close()
