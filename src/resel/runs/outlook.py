"""What can be said of a run before its first step: whether it will learn, and what will be slow."""

from __future__ import annotations

from collections.abc import Sequence

from resel.config import Config, TrainingConfig
from resel.data import Moment, PerRollout, Schedule, Trajectories
from resel.envs import AnyEnv
from resel.errors import ConfigError
from resel.methods import Learner, Phase
from resel.tasks import declared_horizon


def updates_planned(config: Config, schedule: Schedule) -> int:
    """How many updates a run will make; a run that is certain to make none is refused."""
    settings = config.training
    steps, warmup = settings.steps, settings.warmup_steps
    if due := updates_by(config, schedule, steps):
        return due
    after = _earliest(config)
    if steps > after and isinstance(schedule, PerRollout):
        raise ConfigError(
            f"A run of {steps:,} steps would learn nothing: {config.method} learns after every "
            f"{schedule.steps:,} steps of its {settings.num_envs} environments together. Give "
            "several times as many --steps. Nothing was written."
        )
    name = "learn_after" if after > warmup else "warmup_steps"
    raise ConfigError(
        f"A run of {steps:,} steps would learn nothing: no update is made before step {after:,} "
        f"({name}). Give several times as many --steps, or a smaller --{name.replace('_', '-')}. "
        "Nothing was written."
    )


def updates_by(config: Config, schedule: Schedule, step: int) -> int:
    """How many updates may have been made when a run comes to a step."""
    after = _earliest(config)
    return schedule.due(Moment(after, step, 0, step)) if step > after else 0


def learning_begins(config: Config, schedule: Schedule) -> int:
    """A step before which no update is made."""
    rollout = schedule.steps if isinstance(schedule, PerRollout) else 0
    return max(_earliest(config), rollout)


def evaluation_steps(config: Config, adapting: Sequence[Phase]) -> int | None:
    """Environment steps of all evaluations of a run, at most; None where episodes have no end.

    `adapting` is what a method plays before each episode that counts.
    """
    settings = config.training
    longest = settings.max_episode_steps or declared_horizon(config.task)
    if longest is None:
        return None
    evaluations = 1  # of the untrained policy, or at the end
    if settings.eval_every:
        evaluations += -(-settings.steps // settings.eval_every)
    before = sum(phase.most_steps(longest) for phase in adapting)
    return evaluations * settings.eval_episodes * (longest + before)


def notes(settings: TrainingConfig, learner: Learner, env: AnyEnv) -> list[str]:
    """What long episodes mean for a run, in sentences."""
    if env.horizon is None:  # they may end by themselves, as episodes mostly do
        return []
    longest = env.horizon
    begins = _earliest(learner.config)
    called = f"An episode may last {longest:,} steps"
    found = []
    if longest >= settings.steps:
        if lost := _lost_without_episodes(learner):
            found.append(
                f"{called}, and the run has {settings.steps:,}. {lost} Give more --steps, or cut "
                "episodes with --max-episode-steps."
            )
    elif longest > begins and not learner.on_policy:
        found.append(
            f"{called}, longer than the warm-up of {begins:,}: learning begins when the first "
            "episode has ended. --max-episode-steps cuts them."
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


def _lost_without_episodes(learner: Learner) -> str | None:
    """What a run misses in which no episode ends, in a sentence; None if it misses nothing."""
    schedule = learner.schedule
    if not (learner.on_policy and isinstance(schedule, PerRollout)):
        return (
            "Only whole episodes are learned from: unless they end by themselves before, nothing "
            "will be learned."
        )
    if not schedule.further:
        return None
    return (
        f"Besides each rollout {learner.config.method} learns from whole episodes: unless they end "
        f"by themselves before, only {schedule.updates:,} of the {schedule.updates:,} + "
        f"{schedule.further:,} updates of a rollout are made."
    )


def _earliest(config: Config) -> int:
    """Steps before which no update is made: the warm-up, or longer where a method waits."""
    return max(config.training.warmup_steps, int(getattr(config.algorithm, "learn_after", 0)))
