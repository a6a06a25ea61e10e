"""Outcomes that look into trained networks, by way of `resel.analysis`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from resel.agent import RESeL
from resel.analysis import (
    context_embeddings,
    context_map,
    draw,
    measure_amplification,
    read_out_score,
)
from resel.analysis.plots import panels, save_both
from resel.envs import COLUMNS
from resel.experiments._settings import Experiment, Study
from resel.experiments.outcomes._curves import write_rows
from resel.experiments.outcomes._reading import RunData
from resel.tasks import make_env

_GRAVITIES = {"Pendulum-gravity-v0": (6.70, 15.00)}
"""Lowest and highest of a map, m/s^2, where they are not those of the paper."""
_PAPERS = (2.90, 33.10)
_POINTS = 1200
_COLUMNS = (
    *("lr_context_encoder", "lr_other", "rollout_step", "mean", "standard_error", "episodes"),
    *("running_mean", "bound"),
)


def make_amplification(study: Study, runs: Sequence[RunData], folder: Path) -> list[str]:
    """Output variation after one update, for the first run that is complete."""
    run = _first(runs)
    pairs, episodes = study.numbers["pairs"], study.numbers["episodes"]
    found = measure_amplification(run.member.run, pairs, episodes, 1)
    rows = [
        dict(zip(_COLUMNS, (*variation.rates, step, *values), strict=True))
        for variation in found.variations
        for step, values in enumerate(
            zip(
                *(variation.mean, variation.standard_error, variation.episodes),
                *(variation.running_mean, variation.bound),
                strict=True,
            )
        )
    ]
    write_rows(folder / "amplification.csv", rows, _COLUMNS)
    text = json.dumps(found.to_json(), indent=1) + "\n"
    (folder / "amplification.json").write_text(text, encoding="utf-8")
    pictures = ["amplification.png", "amplification.svg"]
    for picture in pictures:
        draw(found, folder / picture)
    return ["amplification.csv", "amplification.json", *pictures]


def make_embedding(
    experiment: Experiment, study: Study, runs: Sequence[RunData], folder: Path
) -> list[str]:
    """A map of the contexts coloured by gravity, and how well gravity can be read from them."""
    run = _first(runs)
    count = study.numbers["gravities"]
    agent = RESeL.load(run.member.run / "agents" / "last")
    task = run.member.setting.task
    gravities = np.linspace(*_GRAVITIES.get(task, _PAPERS), count)
    world = UniformGravity(make_env(task, evaluation=True), gravities)
    try:
        found = context_embeddings(agent, world, episodes=count, hidden=("gravity",))
    finally:
        world.close()
    gravity = abs(found.hidden["gravity"].reshape(len(found.episode), -1)[:, -1])  # (N,)
    score = read_out_score(found.context, gravity, found.episode)
    chosen = np.arange(0, len(gravity), max(1, -(-len(gravity) // _POINTS)))
    places = context_map(found.context[chosen])
    columns = ("episode", "step", "gravity", "x", "y")
    rows = [
        dict(zip(columns, values, strict=True))
        for values in zip(
            found.episode[chosen], found.step[chosen], gravity[chosen], *places.T, strict=True
        )
    ]
    write_rows(folder / "embedding.csv", rows, columns)
    summary = {"gravities": count, "points": len(chosen), "read_out_score": score}
    (folder / "embedding.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    pictures = _draw(experiment, places, gravity[chosen], score, folder)
    return ["embedding.csv", "embedding.json", *pictures]


class UniformGravity(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Plays given gravities in turn, one for each episode."""

    def __init__(self, env: gymnasium.Env[Any, Any], gravities: NDArray[np.float64]) -> None:
        super().__init__(env)
        self._gravities = gravities
        self._episode = 0

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Start an episode under the next gravity."""
        observation, info = self.env.reset(**kwargs)
        gravity = self._gravities[self._episode % len(self._gravities)]
        simulator: Any = self.env.unwrapped
        if hasattr(simulator, "model"):
            simulator.model.opt.gravity[2] = -gravity
            told = simulator.model.opt.gravity.copy()
        else:  # the pendulum
            simulator.g = gravity
            told = np.full_like(info["gravity"], gravity)
        self._episode += 1
        # These gravities are none of the tasks, whose number and range `info` would tell.
        kept = {name: value for name, value in info.items() if name not in COLUMNS}
        return observation, {**kept, "gravity": told}


def _first(runs: Sequence[RunData]) -> RunData:
    return next(run for run in runs if run.status == "completed")


def _draw(
    experiment: Experiment, places: Any, gravity: Any, score: float, folder: Path
) -> list[str]:
    figure, (ax,) = panels(1, width=5.5, height=4.2)
    dots = ax.scatter(*places.T, c=gravity, s=6, cmap="coolwarm")
    figure.colorbar(dots, label="gravity, m/s²")
    ax.set(xlabel="t-SNE 1", ylabel="t-SNE 2")
    ax.set_title(f"{experiment.title}\nread out across episodes: R² = {score:.2f}", fontsize=10)
    return save_both(figure, folder, "embedding")
