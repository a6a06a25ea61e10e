"""A Gymnasium vector environment as single ones: each row begins and ends its own episodes.

All rows step together, when the first of them is asked what its action led to. How a row gets from
one episode to the next is up to the vector's autoreset mode:

- disabled: a row is reset here alone, with its own seed.
- same step: the first observation of the next episode comes with the end of the last one, whose own
  last observation is in `infos["final_obs"]`.
- next step: it comes one step later. The row lets that step pass; where all of them wait for
  it, it is made when the first of them begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector.utils import batch_space, iterate
from numpy.typing import NDArray

from resel.envs._arrays import describe
from resel.envs._vector_info import row_info
from resel.envs.actions import ActionSpec
from resel.envs.autoreset import told_mode
from resel.envs.checked import AnyEnv, CheckedEnv, StepResult
from resel.envs.critic_signal import CriticSignal
from resel.envs.limits import own_limit
from resel.envs.spaces import ObservationSpec
from resel.errors import BadInputError, ConfigError, EnvironmentFault, UnsupportedSpaceError

AnyVector = gymnasium.vector.VectorEnv[Any, Any, Any]
_SPACES = ("single_observation_space", "single_action_space", "observation_space", "action_space")
_Begun = tuple[Any, Any]
"""The first observation of an episode, and what was told with it."""


class Vector:
    """Steps the rows of a vector environment together and keeps what each has not yet asked for."""

    def __init__(self, envs: AnyVector) -> None:
        _check(envs)
        self.envs, self.rows = envs, row_count(envs)
        self.title = _title(envs)
        self.mode = _mode_of(envs)
        self.limit = _own_limit(envs)
        """Steps of the longest episode, if the vector says so."""
        self.waiting: NDArray[np.bool_] = np.zeros(self.rows, np.bool_)
        """Rows whose next episode begins with the next step."""
        self._batched = batch_space(envs.single_observation_space, self.rows)
        self._seeded = not is_pool(envs)
        self._first: dict[int, _Begun] = {}
        self._actions: dict[int, Any] = {}
        self._taken: Any = None
        """The actions of the last step."""
        self._results: list[tuple[Any, ...]] | None = None
        self._fault: Exception | None = None
        self._abandoned, self._stepped = True, False

    def abandon(self) -> None:
        """Give up all episodes; the next one that is begun resets the whole vector."""
        self._abandoned = True

    def begin(self, row: int, seed: int | None) -> _Begun:
        """Start an episode in a row, with this seed where the mode allows for one."""
        asked_again = not self._stepped and row not in self._first  # before the first step
        if self._abandoned or asked_again:
            asked: dict[str, Any] = {"seed": seed} if self._seeded else {}
            self._first = self._begun(*self.envs.reset(**asked), range(self.rows))
            self.waiting[:] = False
            self._actions.clear()
            self._abandoned = self._stepped = False
        elif self.waiting.all():  # what the last step gave was read, and may be overwritten
            observations, *_, infos = self.envs.step(self._taken)
            self._first = self._begun(observations, infos, range(self.rows))
            self.waiting[:] = False
        if self.mode == "disabled":
            mask = np.arange(self.rows) == row
            seeds: Any = [seed if own else None for own in mask.tolist()]
            told = self.envs.reset(seed=seeds, options={"reset_mask": mask})
            return self._begun(*told, [row])[row]
        return self._first.pop(row)

    def send(self, row: int, action: Any) -> None:
        """Keep an action until all rows have theirs."""
        self._actions[row] = action
        self._results = self._fault = None

    def result(self, row: int) -> tuple[Any, ...]:
        """What the action of a row led to, as a single environment would return it."""
        if self._fault is not None:  # for all rows
            raise self._fault
        if self._results is None:
            try:
                self._results = self._step()
            except Exception as error:
                self._fault = error
                raise
        return self._results[row]

    def goes_on(self, row: int) -> bool:
        """Whether an episode that is over for us is not for the vector, which alone begins them."""
        return self.mode != "disabled" and row not in self._first and not self.waiting[row]

    def lets_pass(self, row: int) -> bool:
        """Whether the next step begins an episode in this row, and is one of others."""
        return bool(self.waiting[row]) and not self.waiting.all()

    def _step(self) -> list[tuple[Any, ...]]:
        if len(self._actions) < self.rows:
            raise BadInputError(
                f"{self.title}: the rows of a vector step together, and {len(self._actions)} of "
                f"{self.rows} were given an action."
            )
        actions = np.stack([self._actions[row] for row in range(self.rows)])
        self._actions.clear()
        self._taken, self._stepped = actions, True
        observations, rewards, terminated, truncated, infos = self.envs.step(actions)
        ended = np.asarray(terminated, np.bool_) | np.asarray(truncated, np.bool_)
        before, self.waiting = self.waiting, ended & (self.mode == "next step")
        started = ended if self.mode == "same step" else before
        if self.mode == "next step" and isinstance(infos, Mapping) and "final_obs" in infos:
            raise EnvironmentFault(
                f"{self.title} says that it begins episodes in the step after an end, but tells a "
                "last observation in infos['final_obs'], as vectors that begin them at once do: "
                "put its own mode into metadata['autoreset_mode'] (AutoresetMode.SAME_STEP)."
            )
        if started.any():
            self._first = self._begun(observations, infos, np.flatnonzero(started).tolist())
        seen, results = self._split(observations), []
        for row in range(self.rows):
            observation, info = seen[row], row_info(infos, row, self.rows)
            if self.mode == "same step" and ended[row]:
                observation = self._final(infos, info, row)
                info = info.get("final_info", {})
            flags = bool(terminated[row]), bool(truncated[row])
            results.append((observation, rewards[row], *flags, info))
        return results

    def _begun(self, observations: Any, infos: Any, rows: Any) -> dict[int, _Begun]:
        seen = self._split(observations)
        return {row: (seen[row], row_info(infos, row, self.rows)) for row in rows}

    def _split(self, observations: Any) -> Any:
        """Observations that can be asked for by row."""
        parts = isinstance(observations, Mapping | tuple)
        return list(iterate(self._batched, observations)) if parts else observations

    def _final(self, infos: Any, info: Any, row: int) -> Any:
        """The last observation of an episode that ended in a row, of which `info` is told."""
        whole = infos.get("final_obs") if isinstance(infos, Mapping) else None
        if isinstance(whole, Mapping | tuple):
            return self._split(whole)[row]
        if not isinstance(info, Mapping) or info.get("final_obs") is None:
            raise EnvironmentFault(
                f"{self.title} begins episodes in the step that ends one, but does not tell the "
                "last observation: put it into infos['final_obs'], as Gymnasium's vectors do."
            )
        return info["final_obs"]


class _Row(gymnasium.Env[Any, Any]):
    """One row in the clothes of an environment."""

    def __init__(self, vector: Vector, row: int) -> None:
        self.vector, self.row, self.own_limit = vector, row, vector.limit
        self.observation_space = vector.envs.single_observation_space
        self.action_space = vector.envs.single_action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> _Begun:
        return self.vector.begin(self.row, seed)

    def step(self, action: Any) -> Any:
        return self.vector.result(self.row)

    def close(self) -> None:
        self.vector.envs.close()


class VectorRow(CheckedEnv):
    """A row of a vector, checked as any other environment is. `options` are those of CheckedEnv."""

    def __init__(self, vector: Vector, row: int, name: str, **options: Any) -> None:
        self.vector, self._row = vector, row
        super().__init__(_Row(vector, row), name=name, **options)
        self._sent: Any = None
        self.replay = "together" if vector.mode == "disabled" else "never"
        if self.replay == "never":  # what it would tell of is a fault here
            self._cap_is_ours = False

    @property
    def between_episodes(self) -> bool:
        return self.vector.lets_pass(self._row)

    @property
    def title(self) -> str:
        return self.vector.title

    def abandon(self) -> None:
        self.vector.abandon()

    def reset(self, seed: int, task: int | None = None) -> NDArray[np.float32]:
        if task is not None:
            raise ConfigError(
                f"{self.called} cannot be asked for a task, as this method does: give the name or "
                "a function that makes a single environment, and num_envs= for how many."
            )
        return super().reset(seed)

    def send(self, action: NDArray[np.float32]) -> None:
        super().send(action)
        self._sent = super()._native(f"step {self._steps + 1} of an episode")
        self.vector.send(self._row, self._sent)

    def _native(self, where: str) -> Any:
        return self._sent

    def receive(self) -> StepResult:
        result = super().receive()
        if (result.terminated or result.truncated) and self.vector.goes_on(self._row):
            raise EnvironmentFault(
                f"{self.called}: an episode is longer than {self._cap:,} steps, the most allowed, "
                f"and the vector ends episodes only by itself (autoreset {self.vector.mode}). Give "
                "its environments a limit, as gymnasium.make_vec(..., max_episode_steps=...) does, "
                "raise buffer_steps, or make it with autoreset_mode=AutoresetMode.DISABLED."
            )
        return result


def vector_rows(envs: AnyVector, **options: Any) -> list[AnyEnv]:
    """The rows of a vector as environments of a run. `options` are those of CheckedEnv."""
    signal: CriticSignal | None = options.get("signal")
    if signal is not None and signal.function is not None:
        raise ConfigError(
            "critic_observations is a function of the environment, and those of a vector are not "
            "at hand one by one: name entries of info, or of a Dict observation."
        )
    vector = Vector(envs)
    names = [f"Environment {row + 1} of {vector.rows}" for row in range(vector.rows)]
    names = names if vector.rows > 1 else ["The environment"]
    return [VectorRow(vector, row, name, **options) for row, name in enumerate(names)]


def is_pool(envs: Any) -> bool:
    """Whether it is one of EnvPool's, which have their seeds from when they were made."""
    return any(kind.__module__.startswith("envpool.") for kind in type(envs).__mro__)


def _title(envs: AnyVector) -> str:
    spec = getattr(envs, "spec", None)
    return str(spec.id) if isinstance(spec, EnvSpec) else type(envs.unwrapped).__name__


def _mode_of(envs: AnyVector) -> str:
    mode = told_mode(envs)
    if mode is None:
        told = (envs.metadata or {}).get("autoreset_mode")
        raise ConfigError(
            f"env={envs!r}: its metadata['autoreset_mode'] is {told!r}, so that it is not known "
            "how its episodes begin: set it to one of gymnasium.vector.AutoresetMode."
        )
    return mode


def _inner(envs: AnyVector) -> list[gymnasium.Env[Any, Any]]:
    """The environments of a vector that has them in this process."""
    return list(getattr(envs.unwrapped, "envs", []))


def _own_limit(envs: AnyVector) -> int | None:
    limits = [own_limit(env) for env in _inner(envs)]
    if limits:
        return None if None in limits else max(limit for limit in limits if limit is not None)
    spec = getattr(envs, "spec", None)
    if isinstance(spec, EnvSpec):
        return spec.kwargs.get("max_episode_steps", spec.max_episode_steps)
    return getattr(getattr(spec, "config", None), "max_episode_steps", None)  # EnvPool's


def row_count(envs: AnyVector) -> int:
    """How many environments a vector has, refused if it does not say so."""
    count = getattr(envs, "num_envs", None)
    if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1:
        has = "no num_envs" if count is None else f"num_envs={count!r}"
        raise ConfigError(
            f"The vector {_title(envs)} has {has}: set self.num_envs in its __init__ to the number "
            "of its environments."
        )
    return int(count)


def _check(envs: AnyVector) -> None:
    """Refuse a vector that cannot be stepped, or whose rows one agent cannot act in."""
    for name in _SPACES:
        if getattr(envs, name, None) is None:
            raise UnsupportedSpaceError(
                f"The vector {_title(envs)} has no {name}: set self.{name} in its __init__. It "
                f"needs {', '.join(_SPACES)}; gymnasium.vector.utils.batch_space makes the latter "
                "two of the former."
            )
    if getattr(envs, "closed", False):
        raise ConfigError(f"env={envs!r} is closed already: make a new one.")
    if getattr(envs, "is_async", False) is True:
        raise ConfigError(
            f"env={_title(envs)} steps only some of its environments at a time (batch_size below "
            "num_envs): leave batch_size out."
        )
    inner = _inner(envs)
    if len({id(env.unwrapped) for env in inner}) < len(inner):
        raise ConfigError(
            f"env={envs!r}: two of its environments are one and the same object, and each would "
            "disturb the episodes of the other: make a new one each time."
        )
    ObservationSpec.of(envs.single_observation_space)
    ActionSpec.of(envs.single_action_space)
    for name, bounds in (("observation_space", False), ("action_space", True)):
        single, whole = getattr(envs, f"single_{name}"), getattr(envs, name)
        batched = batch_space(single, row_count(envs))
        found = describe(whole, bounds=bounds)
        if found not in (describe(single, bounds=bounds), describe(batched, bounds=bounds)):
            raise UnsupportedSpaceError(
                f"env={envs!r}: the {name} of its environments differ: together it is {whole}, "
                f"where {row_count(envs)} of {single} would be {batched}. One agent cannot act in "
                "all of them."
            )
