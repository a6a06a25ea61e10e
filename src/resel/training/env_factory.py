"""The environments of a run, each in this process or in one of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from resel.config import Config, TrainingConfig
from resel.envs import (
    AnyEnv,
    CheckedEnv,
    CriticSignal,
    Env,
    EnvFactory,
    SubprocEnv,
    build,
    spaces_of,
)
from resel.errors import ConfigError, UnsupportedSpaceError
from resel.tasks import make_env
from resel.training.privileged import signal_of


def make_task(config: Config, *, evaluation: bool = False, render_mode: str | None = None) -> Env:
    """The environment of a config that names its task."""
    return make_env(
        config.task,
        evaluation=evaluation,
        render_mode=render_mode,
        max_episode_steps=config.training.max_episode_steps,
        env_kwargs={
            name: config.training.seed if value == "seed" else value
            for name, value in config.training.env_kwargs.items()
        },
    )


def task_envs(config: Config) -> tuple[list[AnyEnv], AnyEnv]:
    """Environments to train in, and one to evaluate in, of a run that its config describes."""
    return named_envs(config, signal_of(config))


def named_envs(config: Config, signal: CriticSignal | None) -> tuple[list[AnyEnv], AnyEnv]:
    """The same of a config that names its task; `signal` is what the critic is to read there."""
    if not config.task:
        raise ConfigError(
            "This agent was trained on an environment without a name, which only the program that "
            "made it knows: go on there, with learn(..., run_dir=..., resume='auto')."
        )
    make = partial(make_task, config)
    return make_envs(config.training, make, partial(make_task, config, evaluation=True), signal)


def make_envs(
    settings: TrainingConfig,
    make: EnvFactory,
    make_evaluation: EnvFactory,
    signal: CriticSignal | None = None,
) -> tuple[list[AnyEnv], AnyEnv]:
    """The same from functions that make them."""
    count = settings.num_envs
    names = [f"Environment {i + 1} of {count}" for i in range(count)]
    makes = dict.fromkeys(names if count > 1 else ["The environment"], make)
    makes["The evaluation environment"] = make_evaluation
    envs: list[AnyEnv] = []
    try:
        for name, how in makes.items():
            envs.append(_make_env(settings, how, name, signal))
        for env in envs:
            if isinstance(env, SubprocEnv):
                env.ready()
        _check_alike(envs)
    except BaseException:
        for env in envs:
            env.close()
        raise
    return envs[:-1], envs[-1]


def _make_env(
    settings: TrainingConfig, make: EnvFactory, name: str, signal: CriticSignal | None
) -> AnyEnv:
    given: dict[str, Any] = {
        "name": name,
        "signal": signal,
        "limit": settings.max_episode_steps,
        "longest": settings.buffer_steps,
    }
    if settings.env_workers:
        return SubprocEnv(make, settings.env_timeout, **given)
    return CheckedEnv(build(make, name), make, **given)


def _check_alike(envs: Sequence[AnyEnv]) -> None:
    first = spaces_of(envs[0])
    for env in envs[1:]:
        if spaces_of(env) != first:
            raise UnsupportedSpaceError(
                f"{env.name} has spaces {spaces_of(env)}, {envs[0].name.lower()} has "
                f"{first}: one agent cannot act in both."
            )
