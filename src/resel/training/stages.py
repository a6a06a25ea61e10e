"""The environments of a run, each in this process or in one of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from resel.config import Config, TrainingConfig
from resel.errors import UnsupportedSpaceError
from resel.tasks import make_env
from resel.training.environment import AnyStage, Env, EnvFactory, Stage, build
from resel.training.saving import spaces_of
from resel.training.worker import WorkerStage


def make_task(config: Config, *, evaluation: bool = False, render_mode: str | None = None) -> Env:
    """The environment of a config that names its task."""
    return make_env(
        config.task,
        evaluation=evaluation,
        render_mode=render_mode,
        max_episode_steps=config.training.max_episode_steps,
    )


def task_stages(config: Config) -> tuple[list[AnyStage], AnyStage]:
    """Environments to train in, and one to evaluate in, of a config that names its task."""
    make = partial(make_task, config)
    return make_stages(config.training, make, partial(make_task, config, evaluation=True))


def make_stages(
    settings: TrainingConfig, make: EnvFactory, make_evaluation: EnvFactory
) -> tuple[list[AnyStage], AnyStage]:
    """The same from functions that make them."""
    count = settings.num_envs
    names = [f"Environment {i + 1} of {count}" for i in range(count)]
    makes = dict.fromkeys(names if count > 1 else ["The environment"], make)
    makes["The evaluation environment"] = make_evaluation
    stages: list[AnyStage] = []
    try:
        for name, how in makes.items():
            stages.append(_make_stage(settings, how, name))
        for stage in stages:
            if isinstance(stage, WorkerStage):
                stage.ready()
        _check_alike(stages)
    except BaseException:
        for stage in stages:
            stage.close()
        raise
    return stages[:-1], stages[-1]


def _make_stage(settings: TrainingConfig, make: EnvFactory, name: str) -> AnyStage:
    limit, longest = settings.max_episode_steps, settings.buffer_steps
    if settings.env_workers:
        return WorkerStage(make, settings.env_timeout, name=name, limit=limit, longest=longest)
    return Stage(build(make, name), make, name=name, limit=limit, longest=longest)


def _check_alike(stages: Sequence[AnyStage]) -> None:
    first = spaces_of(stages[0])
    for stage in stages[1:]:
        if spaces_of(stage) != first:
            raise UnsupportedSpaceError(
                f"{stage.name} has spaces {spaces_of(stage)}, {stages[0].name.lower()} has "
                f"{first}: one agent cannot act in both."
            )
