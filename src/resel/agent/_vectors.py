"""A vector of environments that a caller gives an agent."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from resel.config import Config
from resel.envs import (
    AnyEnv,
    AnyVector,
    CheckedEnv,
    CriticSignal,
    Env,
    VectorRow,
    is_pool,
    row_count,
    spaces_of,
    vector_rows,
)
from resel.errors import ConfigError
from resel.tasks import PoolEnv

_OF_VECTORS = ("num_envs", "vectorization_mode", "vector_kwargs", "wrappers", "max_episode_steps")
"""Arguments of `gymnasium.make_vec` that its spec keeps among those of the environment."""


def with_rows(
    env: Any, settings: dict[str, Any], config: Config | None
) -> tuple[dict[str, Any], Config | None]:
    """Settings or config for as many environments as a vector has; others are left as they are."""
    if not isinstance(env, gymnasium.vector.VectorEnv):
        return settings, config
    asked, rows = settings.get("num_envs"), row_count(env)
    if isinstance(config, Config) and config.training.num_envs > 1:  # 1 is nobody's choice
        asked = config.training.num_envs
    if asked not in (None, rows):
        raise ConfigError(
            f"num_envs={asked}, but the vector given as env has {rows} environments: "
            "leave num_envs out."
        )
    if isinstance(config, Config):
        return settings, config.replace(num_envs=rows)
    return {**settings, "num_envs": rows} if config is None else settings, config


def no_evaluation(env: AnyEnv) -> str | None:
    """Why there is no environment to evaluate in, where it is the row of a vector."""
    if not isinstance(env, VectorRow):
        return None
    return (
        f"The vector of {env.vector.title} does not say how one of its environments is made alone: "
        "pass one to evaluate in as learn(..., eval_env=...) or evaluate(env=...)."
    )


def envs_of_vector(
    envs: AnyVector, config: Config, signal: CriticSignal | None
) -> tuple[list[AnyEnv], AnyEnv | None]:
    """The rows of a vector to train in, and one like them to evaluate in, if it can be made."""
    settings = config.training
    for name in ("env_workers", "env_vector", "env_restarts"):
        if getattr(settings, name):
            raise ConfigError(
                f"{name}={getattr(settings, name)} is for environments that are made here, and env "
                "is a vector that is there already: leave it out, or give the name or a function "
                "that makes a single one."
            )
    options: dict[str, Any] = {
        "limit": settings.max_episode_steps,
        "longest": settings.buffer_steps,
        "signal": signal,
    }
    rows = vector_rows(envs, **options)
    if settings.max_episode_steps is not None and rows[0].replay == "never":
        raise ConfigError(
            f"max_episode_steps={settings.max_episode_steps}: the vector begins episodes by "
            "itself, and none can be cut from outside. Give its environments the limit, as "
            "gymnasium.make_vec(..., max_episode_steps=...) does, or make it with "
            "autoreset_mode=AutoresetMode.DISABLED."
        )
    single = one_alone(envs)
    if single is None:
        return rows, None
    options["signal"] = signal and signal.to_evaluate()
    evaluation = CheckedEnv(single, name="The evaluation environment", **options)
    if spaces_of(evaluation) == spaces_of(rows[0]):
        return rows, evaluation
    evaluation.close()
    return rows, None


def one_alone(envs: AnyVector) -> Env | None:
    """One environment like those of a vector; None where it does not say how they are made.

    Nor does one with a wrapper around all of them, which may change what is seen.
    """
    if is_pool(envs):
        return PoolEnv.like(envs)
    spec = envs.spec
    if isinstance(envs, gymnasium.vector.VectorWrapper) or not isinstance(spec, EnvSpec):
        return None
    others = [env.spec for env in getattr(envs, "envs", [])]
    if any(other != others[0] for other in others):
        return None
    spec = copy.deepcopy(spec)
    given = {name: spec.kwargs.pop(name) for name in _OF_VECTORS if name in spec.kwargs}
    limit = {name: given[name] for name in ("max_episode_steps",) if name in given}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of older versions, of which the caller knows
            env: Env = gymnasium.make(spec, disable_env_checker=True, **limit)
        for wrapper in given.get("wrappers", ()):
            env = wrapper(env)
    except Exception:  # as for wrappers that do not keep their arguments
        return None
    return env
