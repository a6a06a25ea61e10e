"""`resel eval`: measure a trained agent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tyro

from resel.choices import Which
from resel.cli._arguments import PLAIN, RunPath, positive
from resel.cli.console import OUT, escape
from resel.config import Config, Count, EnvKwargs
from resel.tasks import get_task


@dataclass(frozen=True)
class EvalArguments:
    """Measure a trained agent: deterministic actions, fixed seeds."""

    run: RunPath
    """A run directory, the directory of a saved agent, or zoo:NAME (see `resel zoo list`)."""
    episodes: Count = 20
    """How many to play."""
    seed: Count = 1
    """Chooses the episodes."""
    agent: Which = "last"
    """Which agent of a run."""
    env_kwargs: EnvKwargs = field(default_factory=dict)
    """Arguments of the environment in which it is to differ from the training, as in length=40."""
    json: bool = False
    """Print one JSON object and nothing else."""


def run(argv: Sequence[str]) -> int:
    """Play the episodes and print what they brought."""
    arguments = tyro.cli(EvalArguments, args=argv, prog="resel eval", config=PLAIN)
    from resel.cli._agents import load_agent
    from resel.training import evaluate, evaluation_seeds

    loaded = load_agent(arguments.run, arguments.agent)
    agent, config = loaded.agent, loaded.agent.config
    seeds = evaluation_seeds(arguments.seed, positive("episodes", arguments.episodes))
    env = agent.make_evaluation_env(arguments.env_kwargs)
    result = evaluate(agent.actor, env, seeds)
    changes = _changes(config, arguments.env_kwargs)
    answer = {
        "task": config.task,
        "method": config.method,
        "encoder": config.encoder,
        "agent": loaded.name,
        "step": loaded.step,
        "episodes": arguments.episodes,
        "seed": arguments.seed,
        "seeds": seeds,
        "return_mean": result.return_mean,
        "return_std": result.return_std,
        "length_mean": result.length_mean,
        "success_rate": result.success_rate,
        "adaptation_steps": result.adaptation_steps,
        **result.inner_means,
        "env_kwargs": {**config.training.env_kwargs, **arguments.env_kwargs},
        "differs_from_training": sorted(changes),
    }
    if arguments.json:
        print(json.dumps(answer))
        return 0
    success = "" if result.success_rate is None else f", success {result.success_rate:.0%}"
    OUT.print(
        f"{config.task}: return {result.return_mean:.2f} ± {result.return_std:.2f} over "
        f"{arguments.episodes} episodes of {result.length_mean:.0f} steps{success}",
        soft_wrap=True,
    )
    OUT.print(f"Measured: {loaded}. ±: the standard deviation over episodes.", soft_wrap=True)
    OUT.print(
        f"Episodes: the seeds {seeds[0]} to {seeds[-1]}, which --seed {arguments.seed} chooses.",
        soft_wrap=True,
    )
    if result.adaptation_steps is not None:
        OUT.print(
            f"Adapted to each task first, in {result.adaptation_steps:,} steps in all, which do "
            "not count.",
            soft_wrap=True,
        )
    if result.inner_means:
        parts = " + ".join(f"{value:.2f}" for value in result.inner_means.values())
        OUT.print(f"Of the episodes of a trial, in their order: {parts}", soft_wrap=True)
    if changes:
        words = ", ".join(f"{name}={value}" for name, value in changes.items())
        OUT.print(escape(f"Not as in the evaluations of its training: {words}"), soft_wrap=True)
        if (limit := config.training.max_episode_steps) is not None:
            OUT.print(
                f"As in its training, episodes are cut after {limit:,} steps (max_episode_steps).",
                soft_wrap=True,
            )
    return 0


def _changes(config: Config, given: Mapping[str, Any]) -> dict[str, str]:
    """In words, the arguments in which the environment is not that of the run's evaluations."""
    task = get_task(config.task)
    usual = {} if task is None else {**task.kwargs, **task.evaluation_kwargs}
    usual |= config.training.env_kwargs
    return {
        name: f"{value!r} (was {usual[name]!r})" if name in usual else repr(value)
        for name, value in given.items()
        if name not in usual or usual[name] != value
    }
