"""`resel watch`: a film of a trained agent, or a drawing of what it saw and did."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import tyro

from resel._process import render_offscreen
from resel.choices import Which
from resel.cli._arguments import PLAIN, RunPath, positive, writing
from resel.cli.console import OUT
from resel.config import Count, EnvKwargs
from resel.errors import MissingDependencyError, NoPicturesError


@dataclass(frozen=True)
class WatchArguments:
    """Write a film of a trained agent, or draw what it sees, does and earns over time."""

    run: RunPath
    """A run directory, the directory of a saved agent, or zoo:NAME (see `resel zoo list`)."""
    out: Path
    """File to write: .gif or .mp4 for a film; .png, .svg or .pdf for a drawing over time."""
    episodes: Count = 1
    """How many to play."""
    seed: Count = 1
    """Chooses the episodes."""
    agent: Which = "last"
    """Which agent of a run."""
    env_kwargs: EnvKwargs = field(default_factory=dict)
    """Arguments of the environment in which it is to differ from the training, as in length=40."""


def run(argv: Sequence[str]) -> int:
    """Play the episodes and film or draw them."""
    arguments = tyro.cli(WatchArguments, args=argv, prog="resel watch", config=PLAIN)
    from resel.cli._agents import load_agent
    from resel.training import evaluation_seeds
    from resel.training.video import DRAWINGS, check_film_path, film

    drawn = arguments.out.suffix in DRAWINGS
    if not drawn:
        check_film_path(arguments.out)
    render_offscreen()
    agent = load_agent(arguments.run, arguments.agent).agent
    seeds = evaluation_seeds(arguments.seed, positive("episodes", arguments.episodes))
    if drawn:
        from resel.analysis import draw_episodes  # films need none of it

        env = agent.make_evaluation_env(arguments.env_kwargs)
        with writing("--out", arguments.out):
            mean, what = draw_episodes(agent.actor, env, seeds, arguments.out), "Drawing"
    else:
        try:
            env = agent.make_evaluation_env(arguments.env_kwargs, render_mode="rgb_array")
            with writing("--out", arguments.out):
                mean = film(agent.actor, env, seeds, arguments.out).return_mean
        except (NoPicturesError, MissingDependencyError) as error:
            drawing = arguments.out.with_suffix(DRAWINGS[0])
            words = ["resel", "watch", str(arguments.run), "--out", str(drawing)]
            raise type(error)(
                f"{error} What it sees and does over time is drawn by: {shlex.join(words)}"
            ) from error
        what = "Film"
    OUT.print(f"Return {mean:.2f}. {what}: {arguments.out}", soft_wrap=True)
    return 0
