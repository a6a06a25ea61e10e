"""What a caller gives an agent, checked: environments, callbacks and counts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from resel.agent._vectors import envs_of_vector
from resel.agent.callbacks import LearnCallback
from resel.config import MOST_STEPS, Config
from resel.envs import (
    AnyEnv,
    AnyVector,
    CheckedEnv,
    CriticSignal,
    Env,
    EnvFactory,
    VectorRow,
    build,
    check_spaces,
    spaces_of,
)
from resel.errors import ConfigError
from resel.methods import check_episodes
from resel.training import make_envs, make_task, named_envs

AnyGiven = str | Env | AnyVector | EnvFactory
"""What an agent can be made from."""


def whole_number(verb: str, count: Any) -> int:
    """A count of 1 or more, for the method that asks."""
    good = isinstance(count, int | float | np.number) and not isinstance(count, bool)
    if not good or not float(count).is_integer():
        raise ConfigError(f"{verb}({count!r}): a whole number is needed.")
    if not 1 <= count <= MOST_STEPS:
        raise ConfigError(f"{verb}({count}): it must be at least 1 and at most {MOST_STEPS:,}.")
    return int(count)


def callbacks_of(given: Any) -> list[LearnCallback]:
    """Callbacks as a list, from one, several or none."""
    if given is None:
        return []
    several = [given] if callable(given) else given
    if not isinstance(several, Sequence) or not all(map(callable, several)):
        raise ConfigError(
            f"callback={given!r} cannot be called: give a function of one LearnProgress, or a "
            "list of such functions."
        )
    return list(several)


def envs_of(
    env: AnyGiven, config: Config, signal: CriticSignal | None
) -> tuple[list[AnyEnv], AnyEnv | None]:
    """Environments to train in, and where there can be more than one, one to evaluate in.

    `signal` is what the critic is to read there.
    """
    settings = config.training
    if isinstance(env, str):
        return named_envs(config, signal)
    if isinstance(env, gymnasium.vector.VectorEnv):
        return envs_of_vector(env, config, signal)
    if isinstance(env, gymnasium.Env):
        more = {"num_envs": settings.num_envs > 1}
        more |= {n: getattr(settings, n) for n in ("env_workers", "env_vector", "env_restarts")}
        for name, too_much in more.items():
            if too_much:
                raise ConfigError(
                    f"{name}={getattr(settings, name)} needs more than one environment: give a "
                    "function that makes one instead of the environment itself."
                )
        limit, longest = settings.max_episode_steps, settings.buffer_steps
        return [CheckedEnv(env, limit=limit, longest=longest, signal=signal)], None
    if not callable(env):
        raise ConfigError(
            f"env={env!r} is neither a name, nor an environment, nor a function that makes one."
        )
    if settings.env_vector:
        raise ConfigError(
            "env_vector=True is for tasks with a name, which bring a vectorised version: leave it "
            "out, or make the vector and give it as env."
        )
    return make_envs(settings, env, env, signal)


def check_separate(envs: Sequence[AnyEnv]) -> None:
    """Refuse the same object twice."""
    here = [env for env in envs if isinstance(env, CheckedEnv)]
    if len({id(env.env.unwrapped) for env in here}) < len(here):
        raise ConfigError(
            "Two environments asked for are one and the same object, and each would disturb the "
            "episodes of the other: make a new one each time."
        )


def evaluation_env(
    env: str | Env | EnvFactory,
    config: Config,
    own: AnyEnv,
    signal: CriticSignal | None,
    argument: str = "eval_env",
) -> CheckedEnv:
    """The caller's environment to evaluate in, refused if an agent of `own` cannot act there."""
    made: Any = env
    make: EnvFactory | None = None
    if isinstance(env, gymnasium.vector.VectorEnv):  # EnvPool's are both
        raise ConfigError(
            f"{argument}={env!r} is several environments in one: give a single one, of which one "
            "episode is played after the other."
        )
    if isinstance(env, str):
        make = partial(make_task, config.replace(task=env), evaluation=True)
        made = make()
    elif not isinstance(env, gymnasium.Env):
        make = env if callable(env) else None
        made = None if make is None else build(make, argument)
    if made is None:
        raise ConfigError(
            f"{argument}={env!r} is neither a name, nor an environment, nor a function that "
            "makes one."
        )
    signal = signal and signal.to_evaluate()
    checked = CheckedEnv(made, make, name="The evaluation environment", signal=signal)
    check_spaces(checked, spaces_of(own), argument)
    check_episodes(config.replace(task=env if isinstance(env, str) else ""), checked)
    check_separate([own, checked])
    return checked


def describe_env(env: AnyEnv) -> str:
    """What to call an environment that has no name."""
    if isinstance(env, VectorRow):
        return f"{env.vector.rows} of {env.vector.title}"
    return type(env.env.unwrapped).__name__ if isinstance(env, CheckedEnv) else "an environment"
