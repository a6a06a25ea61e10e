"""What can be said of a run before its first step: whether it will learn, and what will be slow."""

from __future__ import annotations

from resel.config import TrainingConfig
from resel.data import Moment, Trajectories
from resel.envs import AnyEnv
from resel.errors import ConfigError
from resel.methods import Learner


def check_learning(settings: TrainingConfig, learner: Learner) -> None:
    """Refuse a run that is certain to make no update."""
    steps, warmup = settings.steps, settings.warmup_steps
    after = max(warmup, getattr(learner.settings, "learn_after", 0))
    if steps > after and learner.schedule.due(Moment(warmup, steps, 0, steps)):
        return
    name = "learn_after" if after > warmup else "warmup_steps"
    raise ConfigError(
        f"A run of {steps:,} steps would learn nothing: no update is made before step {after:,} "
        f"({name}). Give several times as many --steps, or a smaller --{name.replace('_', '-')}. "
        "Nothing was written."
    )


def notes(settings: TrainingConfig, learner: Learner, env: AnyEnv) -> list[str]:
    """What long episodes mean for a run, in sentences."""
    if env.horizon is None:  # they may end by themselves, as episodes mostly do
        return []
    longest = env.horizon
    called = f"An episode may last {longest:,} steps"
    found = []
    if longest >= settings.steps:
        found.append(
            f"{called}, and the run has {settings.steps:,}. Only whole episodes are learned from: "
            "unless they end by themselves before, nothing will be learned. Give more --steps, or "
            "cut episodes with --max-episode-steps."
        )
    elif longest > settings.warmup_steps:
        found.append(
            f"{called}, longer than the warm-up of {settings.warmup_steps:,}: learning begins when "
            "the first episode has ended. --max-episode-steps cuts them."
        )
    sampler = learner.sampler
    if isinstance(sampler, Trajectories) and longest > sampler.steps:
        remedy = "--context-length 64 learns from windows of 64 steps instead"
        windows = hasattr(learner.settings, "context_length")
        found.append(
            f"{called}, longer than a batch of {sampler.steps:,}: batches hold whole episodes, so "
            f"an update takes up to {longest / sampler.steps:.1f} times as long as the batch says"
            f"{'; ' + remedy if windows else ''}."
        )
    return found
