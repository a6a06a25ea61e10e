"""How long an episode may last: an endless one could never be learned from."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.wrappers import TimeLimit

DEFAULT_EPISODE_CAP = 10_000
"""Steps after which an environment without a limit of its own is truncated."""


class DefaultLimit(TimeLimit):
    """The limit of an environment that brings none, told apart from one that somebody chose."""


def own_limit(env: gymnasium.Env[Any, Any]) -> int | None:
    """The time limit an environment brings; None if its episodes may never end."""
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, TimeLimit) and not isinstance(env, DefaultLimit):
            return int(env._max_episode_steps)
        env = env.env
    return getattr(env, "own_limit", None)  # of what stands for one of several
