"""Whether what an encoder can read at once is as long as what it will be given."""

from __future__ import annotations

from resel.config import Config
from resel.envs import AnyEnv
from resel.errors import ConfigError
from resel.networks import Longest, encoder_spec
from resel.tasks import get_task


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
    steps, task = env.horizon, get_task(config.task)
    if task is not None and task.ends_itself and not config.training.env_kwargs:
        steps = min(steps or task.horizon, task.horizon)
    if steps is None:
        raise ConfigError(
            f"{env.name}: its episodes have no declared end, and the encoder {config.encoder} "
            f"reads {longest.observations - 1:,} steps at once: end them (max_episode_steps)."
        )
    if steps + 1 > longest.observations:
        learn = ", learn from windows (context_length)" if longest.slides else ""
        raise ConfigError(
            f"{env.name}: episodes can have {steps:,} steps, and the encoder {config.encoder} "
            f"reads {longest.observations - 1:,} at once: {_raise(config, longest, steps)}{learn}, "
            "or end episodes earlier (max_episode_steps)."
        )


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
