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
    vector_rows,
)
from resel.errors import ConfigError, UnsupportedSpaceError
from resel.tasks import is_pool_task, make_env, make_vector
from resel.training.privileged import signal_of

EVALUATION = "The evaluation environment"


def make_task(config: Config, *, evaluation: bool = False, render_mode: str | None = None) -> Env:
    """The environment of a config that names its task."""
    return make_env(
        config.task,
        evaluation=evaluation,
        render_mode=render_mode,
        max_episode_steps=config.training.max_episode_steps,
        env_kwargs=_env_kwargs(config.training),
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
    settings, make_evaluation = config.training, partial(make_task, config, evaluation=True)
    many_at_once = is_pool_task(config.task) and settings.num_envs > 1 and not settings.env_workers
    if settings.env_vector or many_at_once:
        return _vector_envs(config, make_evaluation, signal)
    return make_envs(settings, partial(make_task, config), make_evaluation, signal)


def _vector_envs(
    config: Config, make_evaluation: EnvFactory, signal: CriticSignal | None
) -> tuple[list[AnyEnv], AnyEnv]:
    """The rows of a vector, and a single environment to evaluate in."""
    settings = config.training
    if settings.env_restarts:
        raise ConfigError(
            f"env_restarts={settings.env_restarts}: the environments of a vector fail together and "
            "cannot be made anew one by one: leave it out, or use env_workers."
        )
    envs = make_vector(
        config.task,
        settings.num_envs,
        max_episode_steps=settings.max_episode_steps,
        env_kwargs=_env_kwargs(settings),
    )
    try:
        rows = vector_rows(envs, longest=settings.buffer_steps, signal=signal)
        rows.append(_make_env(settings, make_evaluation, EVALUATION, signal))
        _check_alike(rows)
    except BaseException:
        envs.close()
        raise
    return rows[:-1], rows[-1]


def _env_kwargs(settings: TrainingConfig) -> dict[str, Any]:
    """Arguments of the environment, the run's seed among them where it is asked for."""
    given = settings.env_kwargs.items()
    return {name: settings.seed if value == "seed" else value for name, value in given}


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
    makes[EVALUATION] = make_evaluation
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
        "signal": signal.to_evaluate() if signal and name == EVALUATION else signal,
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
