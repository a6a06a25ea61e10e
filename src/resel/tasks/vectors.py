"""Tasks of which many environments are stepped at once, by a version made for that."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium

from resel.envs import AnyVector
from resel.errors import ConfigError
from resel.tasks.envpool import is_pool_task, make_pool
from resel.tasks.registry import find_spec, get_task, not_made


def make_vector(
    task: str,
    num_envs: int,
    *,
    max_episode_steps: int | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
) -> AnyVector:
    """The vectorised version of a task: EnvPool's, or the one Gymnasium has registered with it."""
    given = dict(env_kwargs or {})
    if is_pool_task(task):
        return make_pool(task, num_envs, max_episode_steps, given)
    ours = get_task(task)
    spec = find_spec(ours.gym_id if ours else task)
    if spec.vector_entry_point is None or spec.additional_wrappers:
        raise ConfigError(
            f"env_vector=True: the environment {task!r} has no vectorised version (a "
            "vector_entry_point where it is registered with Gymnasium): leave it out, or use "
            "env_workers."
        )
    if max_episode_steps is not None:
        given["max_episode_steps"] = max_episode_steps
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of older versions
            return gymnasium.make_vec(
                spec, num_envs, vectorization_mode="vector_entry_point", **given
            )
    except Exception as error:
        raise not_made(task, spec, error, given) from error
