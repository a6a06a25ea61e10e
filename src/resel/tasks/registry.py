"""Every task by name: ours, and whatever else Gymnasium has registered."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.error import DependencyNotInstalled

from resel.envs import DEFAULT_EPISODE_CAP, DefaultLimit, own_limit
from resel.errors import (
    ConfigError,
    EnvironmentFault,
    MissingDependencyError,
    NoPicturesError,
    ReselError,
    UnknownTaskError,
)
from resel.tasks import classic, gravity, key_to_door, mdp, meta, minigrid, popgym, small
from resel.tasks.envpool import is_pool_task, make_pool_env
from resel.tasks.own import load_place, own_spec, place_of, split_name
from resel.tasks.spec import Needs, TaskSpec
from resel.tasks.strict import STRICT

_FAMILIES: tuple[Callable[[], Iterable[TaskSpec]], ...] = (
    small.tasks,
    classic.tasks,
    gravity.tasks,
    meta.tasks,
    key_to_door.tasks,
    mdp.tasks,
    popgym.tasks,
    minigrid.tasks,
)
_WHICH = frozenset({"robot", "base", "keep", "world"})
"""Arguments of our entry points that say which task it is, and are nobody else's to change."""
_REQUIRED = ". Give arguments without a default as --env-kwargs NAME=VALUE (env_kwargs= in Python)."
_TASKS: dict[str, TaskSpec] = {spec.id: spec for family in _FAMILIES for spec in family()}


def register_tasks() -> None:
    """Make our tasks known to Gymnasium as `resel/<id>`, without making any of them."""
    for spec in _TASKS.values():
        if spec.gym_id not in gymnasium.registry:
            gymnasium.register(
                id=spec.gym_id,
                entry_point=spec.entry_point,
                kwargs=dict(spec.kwargs),
                max_episode_steps=None if spec.ends_itself else spec.horizon,
                additional_wrappers=(STRICT,),
                disable_env_checker=True,  # observations are checked where they are encoded
            )


def all_tasks() -> list[TaskSpec]:
    """Our tasks, family by family."""
    return list(_TASKS.values())


def get_task(task: str) -> TaskSpec | None:
    """Our task of that name, also with `resel/` or a module in front; None for any other."""
    name = task.removeprefix("resel/")
    for prefix in (popgym.MODULE_PREFIX, minigrid.MODULE_PREFIX):
        name = name.removeprefix(prefix)
    return _TASKS.get(name)


def make_env(
    task: str,
    *,
    evaluation: bool = False,
    render_mode: str | None = None,
    max_episode_steps: int | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
) -> gymnasium.Env[Any, Any]:
    """Make a task of ours, any registered Gymnasium id, or one of the user's own (`own.py`).

    `env_kwargs` are arguments of the environment on top of the task's own. `max_episode_steps`
    takes the place of the task's own time limit. An environment that has none is truncated after
    `DEFAULT_EPISODE_CAP` steps.
    """
    if max_episode_steps is not None and (
        not isinstance(max_episode_steps, int) or max_episode_steps < 1
    ):
        raise ConfigError(
            f"max_episode_steps={max_episode_steps!r} must be a whole number of at least 1."
        )
    if is_pool_task(task):
        return make_pool_env(task, render_mode, max_episode_steps, env_kwargs or {})
    ours = get_task(task)
    kwargs: dict[str, Any] = {} if render_mode is None else {"render_mode": render_mode}
    if ours is not None:
        _check_installed(ours)
        if evaluation:
            kwargs |= ours.evaluation_kwargs
    kwargs |= env_kwargs or {}
    spec = find_spec(ours.gym_id if ours else task)
    try:
        make = _maker(spec)
        _check_arguments(spec, make, task, env_kwargs or {})
        if render_mode is not None:
            _check_pictures(make, task)
        env: gymnasium.Env[Any, Any] = gymnasium.make(
            spec, max_episode_steps=max_episode_steps, disable_env_checker=True, **kwargs
        )
    except ReselError:
        raise
    except (DependencyNotInstalled, ImportError) as error:
        raise _missing(task, ours, str(error)) from error
    except (Exception, SystemExit) as error:
        raise not_made(task, spec, _original(error), env_kwargs or {}) from error
    if ours is None and own_limit(env) is None:
        env = DefaultLimit(env, DEFAULT_EPISODE_CAP)
    return env


def not_made(
    task: str, spec: EnvSpec, error: BaseException, given: Mapping[str, Any]
) -> ReselError:
    """Why an environment could not be made, and whether its arguments may be to blame."""
    asked = ", ".join(f"{name}={value!r}" for name, value in given.items())
    blamed = bool(asked) and isinstance(error, TypeError | ValueError | AssertionError)
    return (ConfigError if blamed else EnvironmentFault)(
        f"The environment {task!r} could not be made{f' with {asked}' if asked else ''}"
        f"{place_of(error, spec.entry_point)}: {type(error).__name__}: {error}"
        f"{_REQUIRED if 'required positional argument' in str(error) else ''}"
    )


def _original(error: BaseException) -> BaseException:
    """What an environment raised, before Gymnasium made it longer."""
    wrapped = "was raised from the environment creator" in str(error)
    return error.__cause__ or error.__context__ or error if wrapped else error


def _maker(spec: EnvSpec) -> Any:
    """What Gymnasium calls to make an environment."""
    entry = spec.entry_point
    return load_env_creator(entry) if isinstance(entry, str) else entry


def _parameters(make: Any) -> list[str] | None:
    """The arguments by name; None where only the environment itself knows them."""
    try:
        parameters = inspect.signature(make).parameters
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return None
    return list(parameters)


def _check_pictures(make: Any, task: str) -> None:
    """Refuse to draw what cannot be drawn."""
    parameters = _parameters(make)
    takes = parameters is None or "render_mode" in parameters
    if not takes or getattr(make, "render", None) is gymnasium.Env.render:
        lacks = "its class has no render()" if takes else "it takes no argument render_mode"
        raise NoPicturesError(f"The environment {task!r} draws no pictures: {lacks}.")


def _check_arguments(spec: EnvSpec, make: Any, task: str, given: Mapping[str, Any]) -> None:
    """Refuse arguments that the environment does not have, or that are not for its dynamics."""
    if "render_mode" in given:
        raise ConfigError(
            "render_mode is no argument of a training or an evaluation: leave it out, and see "
            "episodes with `resel watch` or `agent.watch`."
        )
    parameters = _parameters(make) if given else None
    if parameters is None:
        return
    fixed = _WHICH if spec.id is not None and spec.id.startswith("resel/") else frozenset()
    known = [name for name in parameters if name not in fixed]
    unknown = [name for name in given if name not in known]
    if unknown:
        offered = ", ".join(name for name in known if name != "render_mode")
        raise ConfigError(
            f"The environment {task!r} has no argument {unknown[0]!r}: it has {offered or 'none'}."
        )


def declared_horizon(task: str) -> int | None:
    """Steps of its longest episode, as far as they are known before it is made."""
    ours = get_task(task)
    if ours is not None:
        return ours.horizon
    return None if is_pool_task(task) else find_spec(task).max_episode_steps


def find_spec(task: str) -> EnvSpec:
    """How Gymnasium makes a task."""
    module = load_place(task)
    name = split_name(task)[1]
    # Looked up here rather than by `gymnasium.make`, which warns of every older version.
    spec = gymnasium.registry.get(name)
    short = name.removeprefix("resel/")
    if spec is None and short.startswith(popgym.LABYRINTHS):
        raise MissingDependencyError(popgym.about_labyrinths(short))
    if spec is None and module is not None:
        return own_spec(module, task)
    if spec is None:
        raise _unknown(task)
    return spec


def _unknown(task: str) -> UnknownTaskError:
    # Ours are offered by their short name; compared in lower case to forgive the spelling.
    known = {known.removeprefix("resel/").lower(): known for known in gymnasium.registry}
    near = difflib.get_close_matches(task.removeprefix("resel/").lower(), known, n=5, cutoff=0.6)
    names = ", ".join(known[key].removeprefix("resel/") for key in near)
    hint = f"Did you mean {names}?" if near else "`resel tasks` lists ours."
    return UnknownTaskError(
        f"There is no task or Gymnasium environment {task!r}. {hint} For one of your own, write "
        "file.py:Class or module:Class; for one that another package registers, module:Id-v0."
    )


def is_installed(spec: TaskSpec) -> bool:
    """Whether the package is there that a task needs."""
    return spec.needs is None or importlib.util.find_spec(_package(spec.needs)) is not None


def _check_installed(spec: TaskSpec) -> None:
    if spec.needs is not None and not is_installed(spec):
        raise _missing(spec.id, spec, f"{_package(spec.needs)!r} is not installed.")


def _package(needs: Needs) -> str:
    return needs.module.partition(".")[0]


def _missing(task: str, ours: TaskSpec | None, reason: str) -> MissingDependencyError:
    reason = reason if reason.endswith((".", "!", "?")) else f"{reason}."
    remedy = "Install the package it names."
    if ours is not None and ours.needs is not None:
        remedy = f"Install it with: pip install 'resel[{ours.needs.extra}]'"
    return MissingDependencyError(f"The environment {task!r} cannot be made: {reason} {remedy}")
