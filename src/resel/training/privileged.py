"""What the critic of a config is told beside the history, and how many numbers that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from resel.config import Config
from resel.envs import CRITIC, OF_FUNCTION, OF_TASK, AnyEnv, CriticSignal
from resel.errors import ConfigError
from resel.tasks import get_task

_SETTING = "critic_observations"


def named_by_task(config: Config) -> Config:
    """The config with what its task names in the place of the word `task`."""
    if _asked(config) != OF_TASK:
        return config
    spec = get_task(config.task)
    if spec is None or spec.critic_observations is None:
        who = f"{spec.id} names nothing" if spec else "only tasks of ours name something"
        raise ConfigError(
            f"{_SETTING}={OF_TASK}: {who} that the critic could read (`resel tasks` lists what "
            f"there is). Name entries of info or of a Dict observation, or leave it out; an entry "
            f"of info with that name is info:{OF_TASK}."
        )
    return config.replace(critic_observations=spec.critic_observations)


def signal_of(
    config: Config, function: Callable[[Any], Any] | None = None, *, to_act: bool = False
) -> CriticSignal | None:
    """Where a config's critic is told what the policy does not see; None where it is told nothing.

    To act nothing is needed, so the function may be missing.
    """
    text = _asked(named_by_task(config))
    if function is not None and (text != OF_FUNCTION or not callable(function)):
        raise ConfigError(
            f"{_SETTING}={function!r}: a function is for a critic that was made to read one, and "
            f"the config of this agent has {_SETTING}={text}: leave it out, or make an agent with "
            "it."
        )
    if text != OF_FUNCTION:
        return None if text is None else CriticSignal.of(text)
    if function is None and not to_act:
        raise ConfigError(
            f"{_SETTING}={OF_FUNCTION}: the critic reads a function of the environment, which only "
            f"the program knows that has it. Learn there, with {_SETTING}= and that function, "
            "and learn(..., run_dir=..., resume='auto') to go on with a run."
        )
    return None if function is None else CriticSignal(function=function)


def privileged_size(config: Config, env: AnyEnv, known: int | None) -> int:
    """How many numbers the critic is told; `known` of a saved agent, else the environment says."""
    text = _asked(config)
    if text is None or known is not None:
        return known or 0
    env.reset(0)  # what `info` holds shows here first
    size = (env.columns or {}).get(CRITIC)
    if size is None:
        raise ConfigError(
            f"{_SETTING}={text}: {env.untold or 'nothing is given'} at the first reset of "
            f"{env.name.lower()}. Let it be given at every reset and every step, or name something "
            "else."
        )
    return size


def _asked(config: Config) -> str | None:
    text: str | None = getattr(config.algorithm, _SETTING, None)
    return text
