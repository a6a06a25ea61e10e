"""Whether what an encoder reads, and learned from, is as long as what it will be given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from resel.config import Config
from resel.data import Windows, WindowsBySteps
from resel.envs import AnyEnv
from resel.errors import ConfigError
from resel.networks import Longest, encoder_spec
from resel.tasks import get_task

if TYPE_CHECKING:
    from resel.methods.base import Learner


def check_windows(config: Config) -> None:
    """Refuse windows to learn from that are longer than the encoder can read."""
    longest, steps = _longest(config), _context_length(config)
    if longest is not None and steps is not None and steps + 1 > longest.observations:
        raise ConfigError(
            f"context_length={steps}: such a window has {steps + 1:,} observations with the last "
            f"one, and the encoder {config.encoder} reads {longest.observations:,} at once: lower "
            f"context_length, or {_raise(config, longest, steps)}."
        )


def check_episodes(config: Config, env: AnyEnv) -> None:
    """Refuse an environment whose episodes are longer than the encoder can read.

    Those of a window are not: they go on with the newest steps, if windows are also learned from.
    """
    longest, windows = _longest(config), _context_length(config)
    if longest is None or (longest.slides and windows is not None):
        return
    steps = _episode_steps(config, env)
    if steps is None:
        raise ConfigError(
            f"{env.called}: its episodes have no declared end, and the encoder {config.encoder} "
            f"reads {longest.observations - 1:,} steps at once: end them (max_episode_steps)."
        )
    if steps + 1 > longest.observations:
        learn = ", learn from windows (context_length)" if longest.slides else ""
        raise ConfigError(
            f"{env.called}: episodes can have {steps:,} steps, and the encoder {config.encoder} "
            f"reads {longest.observations - 1:,} at once: {_raise(config, longest, steps)}{learn}, "
            "or end episodes earlier (max_episode_steps)."
        )


def check_learned(learner: Learner, env: AnyEnv) -> None:
    """Refuse to learn from windows what then acts on more steps at once than they have.

    A memory that is handed on from step to step is not concerned.
    """
    config, sampler = learner.config, learner.sampler
    if config.encoder is None or not isinstance(sampler, (Windows, WindowsBySteps)):
        return
    spec, learned = encoder_spec(config.encoder), sampler.length + 1
    steps, reach = _episode_steps(config, env), spec.reach(config.encoder_settings)
    seen = min(learned + 1 if n is None else n for n in (steps and steps + 1, reach))
    if spec.carries_on or seen <= learned:
        return
    longer = f" of up to {steps:,} steps" if steps is not None else ""
    whole = "" if steps is None else f", or raise context_length to {steps}"
    raise ConfigError(
        f"{config.method} learns from windows of context_length={sampler.length} steps here, but "
        f"acts in episodes{longer}, and what the encoder {config.encoder} has learned from so many "
        f"says nothing of more: set window to {learned}, which are these steps and the observation "
        f"behind them{whole}."
    )


def _episode_steps(config: Config, env: AnyEnv) -> int | None:
    """Of the longest episode; None where no end is declared."""
    steps, task = env.horizon, get_task(config.task)
    if task is not None and task.ends_itself and not config.training.env_kwargs:
        return min(steps or task.horizon, task.horizon)
    return steps


def _longest(config: Config) -> Longest | None:
    if config.encoder is None:
        return None
    return encoder_spec(config.encoder).longest(config.encoder_settings)


def _context_length(config: Config) -> int | None:
    """Steps of the windows that are learned from; None for whole trajectories."""
    steps: int | None = getattr(config.algorithm, "context_length", None)
    return steps


def _raise(config: Config, longest: Longest, steps: int) -> str:
    now = getattr(config.encoder_settings, longest.setting)
    return f"raise {longest.setting} to {now + steps + 1 - longest.observations}"
