"""Settings of the loop around a method."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from resel.config._checks import at_least, at_most, between, finite, one_of, positive
from resel.config._kinds import Count, EnvKwargs, only_for
from resel.errors import ConfigError

MOST_UPDATES = 1000.0
"""For one step of the environment: a run can be stopped between steps only."""
MOST_STEPS = 10**12
"""Of anything: at a million steps a second these take eleven days."""
OnDivergence = Literal["stop", "rollback"]


@dataclass(frozen=True)
class TrainingConfig:
    """The loop around the method."""

    steps: Count = 1_000_000
    """Environment steps in all."""
    seed: Count = 1
    """Seed of every random stream of the run."""
    init_from: str | None = None
    """Begin with the weights of this run or saved agent, as far as they fit; all else is new."""
    warmup_steps: Count = 5000
    """Steps with uniformly random actions before learning starts."""
    updates_per_step: float = 1.0
    """Updates for each environment step, a fraction or above 1."""
    lr_final_scale: float = 1.0
    """From the middle of the training on, the learning rates of the networks fall in a straight
    line, to this share of themselves at its end."""
    exploration_epsilon: float = only_for("Discrete", 0.0)
    """Discrete actions: each exploring episode draws a strength between 0 and this, and begins a
    random action with that probability at each of its steps, to be held as `noise_hold` says."""
    deviation_episodes: float = only_for("Discrete", 0.0)
    """Discrete actions: the share of exploring episodes that are greedy but for one random action,
    at a step drawn from the length of the episode before."""
    critic_episodes: float = only_for("Discrete", 0.0)
    """Discrete actions: the share of exploring episodes that follow one head of the critic, drawn
    for the episode, in the place of the policy: exp(Q / alpha), which the policy learns to be."""
    exploration_fraction: float | None = None
    """Share of the training in which exploration falls to nothing: a growing share of the episodes
    is greedy, and from there on all are. None explores to the end."""
    noise_hold: Count = 1
    """Exploration noise of Box actions, and all random actions, are kept for 1 to this many steps,
    n of them with a probability in proportion to 1 / n."""
    buffer_steps: Count = 1_000_000
    """Capacity of the replay buffer; the oldest whole episodes leave first."""
    num_envs: Count = 1
    """Environments stepped together; updates are due for the steps of each."""
    env_kwargs: EnvKwargs = field(default_factory=dict)
    """Arguments of the environment, as in `length=40`; the word seed stands for the run's seed."""
    max_episode_steps: Count | None = None
    """Cut episodes (as truncation) after this many steps; None keeps the environment's own limit,
    or cuts after 10,000 where it has none, and never lets one outgrow the buffer."""
    env_workers: bool = False
    """Run every environment in a process of its own, all of them stepping at the same time; one
    that crashes or hangs is then noticed. The results are the same."""
    env_vector: bool = False
    """Step all environments at once, in the vectorised version that the task is registered with
    (vector_entry_point). Its episodes have no seeds of their own, so a resumed run is not exact."""
    env_timeout: float = 60.0
    """With env_workers, and in evaluations with eval_parallel: seconds that a reset or step may
    take."""
    env_restarts: Count = 0
    """How many times in a run an environment that failed is made anew, dropping its unfinished
    episode, before the run stops."""
    eval_every: Count = 5000
    """Environment steps between evaluations; 0 evaluates only at the end."""
    eval_episodes: Count = 5
    """Episodes per evaluation, with the deterministic policy and fixed seeds."""
    eval_parallel: bool = False
    """Play evaluations in a process of its own while learning goes on; pays with a core to spare.
    The results are the same."""
    stop_return: float | None = None
    """End the training once three evaluations in a row reach this return."""
    checkpoint_every: Count = 50_000
    """Environment steps between checkpoints; 0 leaves it to checkpoint_minutes and the end."""
    checkpoint_minutes: float = 10.0
    """Minutes after which a checkpoint is due in any case; 0 leaves it to checkpoint_every. The
    results do not depend on it."""
    log_every: Count = 500
    """Environment steps between `train` lines in metrics.jsonl."""
    on_divergence: OnDivergence = "stop"
    """What a run does that has diverged: stop, which is a result as in the paper, or go back to its
    last good checkpoint and draw other batches from there, twice at most."""
    device: str = "auto"
    """auto, cpu or cuda (cuda:1 and so on)."""
    threads: Count = 0
    """CPU threads; 0 takes one below the paper's width, all cores from there on. A run that goes on
    keeps the number it has."""
    disk_tries: Count = 6
    """Tries of a write that the disk refuses, as when it is full, before the run gives up."""
    disk_wait: float = 5.0
    """Seconds before the second of these tries; each further pause is twice as long."""

    def __post_init__(self) -> None:
        at_least(
            self,
            1,
            "steps",
            "buffer_steps",
            "num_envs",
            "max_episode_steps",
            "noise_hold",
            "eval_episodes",
            "log_every",
            "disk_tries",
        )
        at_least(
            self,
            0,
            "seed",
            "warmup_steps",
            "env_restarts",
            "eval_every",
            "checkpoint_every",
            "threads",
        )
        at_most(self, MOST_STEPS, "steps", "warmup_steps", "buffer_steps", "max_episode_steps")
        positive(self, "env_timeout", "updates_per_step", "lr_final_scale")
        between(self, 0.0, MOST_UPDATES, "updates_per_step")
        finite(self, "stop_return")
        between(self, 0.0, 3600.0, "disk_wait")
        between(self, 0.0, 1e6, "checkpoint_minutes")
        between(self, 0.0, 1.0, "exploration_epsilon", "deviation_episodes", "lr_final_scale")
        between(self, 0.0, 1.0, "critic_episodes", "exploration_fraction")
        if self.deviation_episodes + self.critic_episodes > 1:
            raise ConfigError(
                f"deviation_episodes={self.deviation_episodes} and "
                f"critic_episodes={self.critic_episodes} are shares of the same episodes: together "
                "at most 1."
            )
        one_of(self, "on_divergence", OnDivergence)
        if self.env_vector and self.env_workers:
            raise ConfigError(
                "env_vector and env_workers are two ways to step many environments: choose one."
            )
        if self.max_episode_steps is not None and self.max_episode_steps > self.buffer_steps:
            raise ConfigError(
                f"max_episode_steps={self.max_episode_steps} does not fit into "
                f"buffer_steps={self.buffer_steps}: whole episodes are stored, so raise "
                "buffer_steps or lower max_episode_steps."
            )
        if self.stop_return is not None and self.eval_every == 0:
            raise ConfigError(
                f"stop_return={self.stop_return} needs evaluations on the way: set eval_every "
                "above 0."
            )
        if re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device) is None:
            raise ConfigError(
                f"device={self.device!r} is not known: use 'auto', 'cpu', 'cuda' or 'cuda:1'."
            )
