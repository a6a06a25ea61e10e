"""EnvPool's environments, by the name `envpool:Id-v0`: many at once, stepped outside of Python.

A pool has its seed from when it is made. Here it is made anew for every reset with a seed, which
takes about a millisecond, so that the seed says all that follows.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Self

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, iterate

from resel.envs import row_info
from resel.errors import (
    ConfigError,
    EnvironmentFault,
    MissingDependencyError,
    NoPicturesError,
    UnknownTaskError,
)

PREFIX = "envpool:"
_OURS = {
    "num_envs": "how many environments there are is a setting: num_envs=",
    "batch_size": "all environments of a pool step together here: leave it out",
    "seed": "every reset has a seed of its own, drawn from the run's: leave it out",
}
"""Arguments that are not the caller's to give, and what to do instead."""
_Make = Callable[[int, int], Any]
"""Makes a pool of so many environments, with a seed."""


def is_pool_task(task: str) -> bool:
    """Whether a task's name is one of EnvPool's."""
    return task.startswith(PREFIX)


class Pool(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """A pool that takes seeds."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, make: _Make, num_envs: int, name: str) -> None:
        self._make, self.num_envs = make, num_envs
        self._pool = self._made(0)
        self.single_observation_space = self._pool.observation_space
        self.single_action_space = self._pool.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.limit: int | None = getattr(self._pool.spec.config, "max_episode_steps", None)
        self.spec = EnvSpec(name, max_episode_steps=self.limit)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Begin episodes everywhere, those of a new pool if there is a seed."""
        if seed is not None:
            self._pool = self._made(seed)
        observations, infos = self._pool.reset()
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """One step of every environment."""
        observations, rewards, terminated, truncated, infos = self._pool.step(actions)
        return observations, rewards, terminated, truncated, infos

    def _made(self, seed: int) -> Any:
        pool = self._make(self.num_envs, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of bounds that lose digits, in spaces of its own
            _ = pool.observation_space, pool.action_space  # made when they are first asked for
        return pool

    def close_extras(self, **kwargs: Any) -> None:
        """Release the simulators."""
        self._pool.close()


class PoolEnv(gymnasium.Env[Any, Any]):
    """One environment of EnvPool's alone: a pool of one."""

    def __init__(self, pool: Pool) -> None:
        self._pool, self.spec, self.own_limit = pool, pool.spec, pool.limit
        self.observation_space = pool.single_observation_space
        self.action_space = pool.single_action_space

    @classmethod
    def like(cls, pool: Any) -> Self:
        """One like those of a pool that somebody else has made."""
        spec, kind = type(pool.spec), type(pool)
        own = pool.spec.config._asdict() | {"num_threads": 1, "env_seed": []}

        def make(count: int, seed: int) -> Any:
            given = own | {"num_envs": count, "batch_size": count, "seed": seed}
            return kind(spec(spec.gen_config(**given)))

        return cls(Pool(make, 1, kind.__name__))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, Any]:
        """Begin an episode."""
        observations, infos = self._pool.reset(seed=seed)
        return self._only(observations), row_info(infos, 0, 1)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Any]:
        """One step."""
        result = self._pool.step(np.asarray(action)[None])
        observations, rewards, terminated, truncated, infos = result
        flags = bool(terminated[0]), bool(truncated[0])
        return self._only(observations), rewards[0], *flags, row_info(infos, 0, 1)

    def close(self) -> None:
        """Release the simulator."""
        self._pool.close()

    def _only(self, observations: Any) -> Any:
        return next(iter(iterate(self._pool.observation_space, observations)))


def make_pool(
    task: str, num_envs: int, max_episode_steps: int | None, env_kwargs: Mapping[str, Any]
) -> Pool:
    """So many environments of a task `envpool:Id-v0`."""
    name, more = task.removeprefix(PREFIX), dict(env_kwargs)
    for key, instead in _OURS.items():
        if key in more:
            raise ConfigError(f"env_kwargs {key}={more[key]!r} of {task!r}: {instead}.")
    if max_episode_steps is not None:
        more["max_episode_steps"] = max_episode_steps
    envpool = _package(task)
    known = envpool.list_all_envs()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=5, cutoff=0.6)
        hint = f" Did you mean {', '.join(PREFIX + other for other in near)}?" if near else ""
        raise UnknownTaskError(f"EnvPool has no environment {name!r}.{hint}")

    def make(count: int, seed: int) -> Any:
        threads = {"num_threads": 1} if count == 1 else {}
        return envpool.make_gymnasium(name, num_envs=count, seed=seed, **{**more, **threads})

    try:
        return Pool(make, num_envs, task)
    except Exception as error:
        asked = ", ".join(f"{key}={value!r}" for key, value in more.items())
        kind = ConfigError if asked else EnvironmentFault
        raise kind(
            f"The environment {task!r} could not be made{f' with {asked}' if asked else ''}: "
            f"{type(error).__name__}: {error}"
        ) from error


def make_pool_env(
    task: str,
    render_mode: str | None,
    max_episode_steps: int | None,
    env_kwargs: Mapping[str, Any],
) -> PoolEnv:
    """One environment of a task `envpool:Id-v0`."""
    if render_mode is not None:
        raise NoPicturesError(f"The environment {task!r} draws no pictures here.")
    return PoolEnv(make_pool(task, 1, max_episode_steps, env_kwargs))


def _package(task: str) -> Any:
    try:
        import envpool
    except ImportError as error:
        raise MissingDependencyError(
            f"The environment {task!r} cannot be made: {error}. Install it with: pip install "
            "'resel[envpool]'"
        ) from error
    return envpool
