"""Which settings an agent has: a preset, a size, and what is asked."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import gymnasium

from resel.config import Config, SizeName, TrainingConfig
from resel.envs import (
    OF_FUNCTION,
    OF_TASK,
    AnyVector,
    CheckedEnv,
    CriticSignal,
    Env,
    EnvFactory,
    SubprocEnv,
    build,
    vector_rows,
)
from resel.errors import ConfigError
from resel.methods import (
    AUTO_STEPS,
    Method,
    World,
    auto_choices,
    default_method,
    get_method,
    preset_method,
    preset_settings,
)
from resel.tasks import declared_horizon, full_name, get_task, make_env


def configure(
    task: str,
    *,
    method: str | None = None,
    preset: str | None = None,
    size: SizeName | None = None,
    world: World | None = None,
    **settings: Any,
) -> Config:
    """The settings of a method on a task: its preset, then the network size, then what is asked.

    Without a preset it is `paper` for tasks of ours, else `auto`, for which an environment without
    a name has to say what its `world` is. A preset may be a file, which brings its method.
    """
    chosen = get_method(method or preset_method(preset) or default_method())
    task = full_name(task)
    preset = preset or usual_preset(task if task or world is None else None)
    if preset == "auto" and world is None and task:
        world = world_of(task, settings)
    layer = preset_layer(chosen, task, preset, world, settings.get("steps", AUTO_STEPS))
    usual_size, usual_encoder = layer.pop("size", None), layer.pop("encoder", None)
    encoder = settings.pop("encoder", None) or usual_encoder
    names = {"method": chosen.name, "encoder": encoder}
    bare = Config.build(task, names)
    factor = size or usual_size
    sizes = bare.sized(factor, layer) if factor else {}
    return Config.build(task, names, layer, sizes).replace(**settings)


def preset_layer(
    method: Method, task: str, preset: str, world: World | None, steps: int = AUTO_STEPS
) -> dict[str, Any]:
    """What a preset sets, `size` perhaps among it."""
    if preset != "auto":
        return preset_settings(method, task, preset)
    if world is None:
        raise ConfigError("preset='auto' looks at the environment: name one, or give it.")
    return {choice.name: choice.value for choice in auto_choices(method, world, steps)}


def usual_preset(task: str | None) -> str:
    """The preset that is taken if none is asked for; None is an environment without a name."""
    if task is None:
        return "auto"
    return "paper" if not task or get_task(task) is not None else "auto"


def world_of(env: str | Env | AnyVector | EnvFactory, settings: Mapping[str, Any]) -> World | None:
    """What the preset `auto` has to know, for which an environment may be made and closed again.

    None for what is no environment.
    """
    limit, signal = settings.get("max_episode_steps"), _named(settings.get("critic_observations"))
    if isinstance(env, gymnasium.vector.VectorEnv):
        return World.of(vector_rows(env, signal=signal)[0], limit)
    if isinstance(env, gymnasium.Env):
        return World.of(CheckedEnv(env, signal=signal), limit)
    if isinstance(env, str):
        given = {**settings.get("env_kwargs", {})}
        if not given:  # what ends by itself does not say when, but of our tasks it is known
            limit = limit or declared_horizon(env)
        made = make_env(env, env_kwargs={k: 1 if v == "seed" else v for k, v in given.items()})
    elif not callable(env):
        return None
    elif settings.get("env_workers"):  # it may not be possible, or not safe, to make it here
        timeout = settings.get("env_timeout", TrainingConfig().env_timeout)
        with closing(SubprocEnv(env, timeout, signal=signal)) as worker:
            return World.of(worker.ready(), limit)
    else:
        made = build(env, "The environment")
    with closing(made):
        return World.of(CheckedEnv(made, signal=signal), limit)


def _named(critic_observations: Any) -> CriticSignal | None:
    """What the policy does not see of an observation, if words say so."""
    plain = isinstance(critic_observations, str)
    if not plain or critic_observations in (OF_TASK, OF_FUNCTION):
        return None
    return CriticSignal.of(critic_observations)
