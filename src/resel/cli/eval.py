"""`resel eval`: measure a trained agent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import tyro

from resel.cli._agents import Which, evaluation_env, load_agent
from resel.cli._arguments import PLAIN, RunPath, positive
from resel.cli.console import OUT
from resel.config import Count
from resel.training import evaluate, evaluation_seeds


@dataclass(frozen=True)
class EvalArguments:
    """Measure a trained agent: deterministic actions, fixed seeds."""

    run: RunPath
    """A run directory, or the directory of a saved agent."""
    episodes: Count = 20
    """How many to play."""
    seed: Count = 1
    """Chooses the episodes."""
    agent: Which = "last"
    """Which agent of a run."""
    json: bool = False
    """Print one JSON object and nothing else."""


def run(argv: Sequence[str]) -> int:
    """Play the episodes and print what they brought."""
    arguments = tyro.cli(EvalArguments, args=argv, prog="resel eval", config=PLAIN)
    agent = load_agent(arguments.run, arguments.agent)
    config = agent.config
    seeds = evaluation_seeds(arguments.seed, positive("episodes", arguments.episodes))
    result = evaluate(agent.actor, evaluation_env(config), seeds)
    answer = {
        "task": config.task,
        "method": config.method,
        "encoder": config.encoder,
        "episodes": arguments.episodes,
        "return_mean": result.return_mean,
        "return_std": result.return_std,
        "length_mean": result.length_mean,
        "success_rate": result.success_rate,
    }
    if arguments.json:
        print(json.dumps(answer))
        return 0
    success = "" if result.success_rate is None else f", success {result.success_rate:.0%}"
    OUT.print(
        f"{config.task}: return {result.return_mean:.2f} ± {result.return_std:.2f} over "
        f"{arguments.episodes} episodes of {result.length_mean:.0f} steps{success}"
    )
    return 0
