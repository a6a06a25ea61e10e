"""`resel watch`: write a film of a trained agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from resel._process import render_offscreen
from resel.cli._agents import Which, load_agent
from resel.cli._arguments import PLAIN, RunPath, positive
from resel.cli.console import OUT
from resel.config import Count
from resel.training import evaluation_seeds
from resel.training.video import check_film_path, film


@dataclass(frozen=True)
class WatchArguments:
    """Write a film of a trained agent."""

    run: RunPath
    """A run directory, or the directory of a saved agent."""
    out: Path
    """File to write: .gif or .mp4."""
    episodes: Count = 1
    """How many to play."""
    seed: Count = 1
    """Chooses the episodes."""
    agent: Which = "last"
    """Which agent of a run."""


def run(argv: Sequence[str]) -> int:
    """Play the episodes and film them."""
    arguments = tyro.cli(WatchArguments, args=argv, prog="resel watch", config=PLAIN)
    check_film_path(arguments.out)
    render_offscreen()
    agent = load_agent(arguments.run, arguments.agent)
    env = agent.make_evaluation_env(render_mode="rgb_array")
    seeds = evaluation_seeds(arguments.seed, positive("episodes", arguments.episodes))
    result = film(agent.actor, env, seeds, arguments.out)
    OUT.print(f"Return {result.return_mean:.2f}. Film: {arguments.out}", soft_wrap=True)
    return 0
