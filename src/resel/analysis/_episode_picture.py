"""The picture of episodes in an environment that draws none: what was seen, done and earned."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resel.analysis import plots
from resel.analysis._episodes import record_episodes
from resel.data import Trajectory
from resel.envs import ActionSpec, CheckedEnv
from resel.errors import ConfigError
from resel.training import Actor

_LINES = 8
"""More numbers than this are told apart by colours, a row each, instead of by lines."""
_MOST = 8
"""Episodes side by side."""
_ROWS = ("observation", "action", "reward")


def draw_episodes(actor: Actor, env: CheckedEnv, seeds: Sequence[int], path: Path) -> float:
    """A column of panels for each episode of the deterministic policy; the mean return."""
    if len(seeds) > _MOST:
        raise ConfigError(f"{len(seeds)} episodes are too many for one drawing: at most {_MOST}.")
    episodes = record_episodes(actor, env, seeds)
    figure, axes = plots.panels(
        len(_ROWS) * len(episodes), width=5.0, height=2.2, columns=len(episodes)
    )
    for index, episode in enumerate(episodes):
        observation, action, reward = axes[index :: len(episodes)]
        observation.set_title(_title(episode), fontsize=10)
        _numbers(observation, env.observation.numbers(episode.observations))
        _numbers(action, _taken(env.action, episode), drawstyle="steps-post")
        reward.plot(range(1, len(episode) + 1), episode.rewards)
        reward.set_xlabel("step")
        for panel in (observation, action, reward):
            panel.set_xlim(0, len(episode))
    for row, name in enumerate(_ROWS):
        axes[row * len(episodes)].set_ylabel(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    plots.save(figure, path)
    return float(np.mean([episode.rewards.sum() for episode in episodes]))


def _title(episode: Trajectory) -> str:
    end = "terminated" if episode.terminated else "truncated"
    return f"return {episode.rewards.sum():.2f}, {len(episode)} steps, {end}"


def _taken(spec: ActionSpec, episode: Trajectory) -> NDArray[Any]:
    """(L, A): actions in the environment's own units."""
    taken = [spec.to_env(int(a[0]) if spec.discrete else a) for a in episode.actions]
    return np.asarray(taken, np.float32).reshape(len(taken), -1)


def _numbers(axes: Any, values: NDArray[Any], **style: Any) -> None:
    """(L, size) along the steps: as lines, or in colours where there are many."""
    size = values.shape[1]
    if size > _LINES:
        axes.imshow(values.T, aspect="auto", interpolation="nearest", origin="lower")
        axes.grid(False)
        return
    for number in range(size):
        axes.plot(values[:, number], label=str(number), **style)
    if size > 1:
        axes.legend(fontsize=7, ncols=size, loc="upper center", bbox_to_anchor=(0.5, 1.0))
