"""What comparison methods with a replay buffer share: settings, batches, temperature, presets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from resel import losses
from resel.config import Count, at_least, between, finite, one_of, positive
from resel.data import Sampler, Transitions, Windows
from resel.errors import ConfigError
from resel.methods.registry import Preset
from resel.networks import Dimensions, Initialisation, PlainNetwork
from resel.optim import Temperature, target_entropy
from resel.tasks import TaskSpec

AlphaLoss = Literal["log", "exp"]


@dataclass(frozen=True)
class SoftSettings:
    """The settings of maximum-entropy methods, but for how they draw a batch."""

    lr_policy: float = 3e-4
    """Learning rate of the policy."""
    lr_critic: float = 3e-4
    """Learning rate of the critics."""
    lr_alpha: float = 3e-4
    """Learning rate of log alpha."""
    gamma: float = 0.99
    """Discount."""
    tau: float = 0.005
    """Share of the critic that its target takes over at each soft update."""
    critic_entropy: bool = True
    """Whether the policy's entropy is part of the critics' target; it always is of the policy's
    loss."""
    alpha: float | None = None
    """Keep the temperature at this value; None tunes it to the target entropy."""
    alpha_start: float = 1.0
    """Where a tuned temperature starts."""
    alpha_max: float | None = None
    """A tuned temperature is kept below this; None leaves it free."""
    alpha_loss: AlphaLoss = "log"
    """What the temperature descends on: log alpha, or alpha itself (through exp), times how far the
    entropy is above its target."""
    target_entropy_scale: float | None = None
    """Target entropy = -scale x action size (Box) or scale x log(actions) (Discrete); None means 1
    for Box and 0.2 for Discrete."""
    policy_delay: Count = 1
    """Critic updates per update of policy and temperature."""
    learn_after: Count = 0
    """No update before this many environment steps; those after warmup_steps act by the policy."""
    reward_scale: float = 1.0
    """Rewards are multiplied by this in the targets; reported returns are not."""
    normalize_rewards: bool = False
    """Also divide them by the running deviation of discounted returns."""
    normalize_observations: bool = False
    """Scale observations by their running mean and deviation, saved with the agent."""

    def __post_init__(self) -> None:
        positive(self, "lr_policy", "lr_critic", "lr_alpha", "reward_scale", "alpha_start")
        positive(self, "alpha_max")
        at_least(self, 1, "policy_delay")
        at_least(self, 0, "learn_after")
        between(self, 0.0, 1.0, "gamma", "tau")
        between(self, 0.0, math.inf, "alpha")
        finite(self, "target_entropy_scale")
        one_of(self, "alpha_loss", AlphaLoss)
        if self.alpha_max is not None and self.alpha_start > self.alpha_max:
            raise ConfigError(
                f"alpha_start={self.alpha_start} is above alpha_max={self.alpha_max}: lower it."
            )


@dataclass(frozen=True)
class BaselineNetwork(PlainNetwork):
    """Sizes of policy and critic, with the first weights of Ni et al. 2022."""

    initialisation: Initialisation = "fan_out"
    """First weights: torch's own, or fan_out, near zero in the last layer (pomdp-baselines)."""


ESCP: dict[str, Any] = {
    "head_width": 128,
    "last_width": 64,
    "activation": "leaky_relu",
    "log_std_min": -7.0,
    "lr_critic": 1e-3,
    "lr_alpha": 1e-2,
    "alpha_start": 0.2,
    "alpha_max": 1.0,
    "target_entropy_scale": 1.5,
    "warmup_steps": 4000,
    "learn_after": 20_000,
    "buffer_steps": 2_000_000,
}
"""What Luo et al. 2022 give SAC on gravity tasks, with a memory or without. How often it learns is
told in two ways; once a step is taken."""


def sampler_of(settings: Any) -> Sampler:
    """Windows where the settings speak of them, else single transitions."""
    if hasattr(settings, "batch_windows"):
        return Windows(settings.batch_windows, settings.context_length)
    return Transitions(settings.batch_transitions)


def temperature_of(
    settings: SoftSettings, dims: Dimensions, device: torch.device, dtype: torch.dtype
) -> Temperature:
    """The temperature as the settings have it."""
    through_exp = settings.alpha_loss == "exp"
    return Temperature(
        settings.alpha,
        settings.lr_alpha,
        target_entropy(settings.target_entropy_scale, dims.action, dims.discrete),
        device,
        dtype,
        loss=losses.temperature_loss_exp if through_exp else losses.temperature_loss,
        largest_log=None if settings.alpha_max is None else math.log(settings.alpha_max),
        start=settings.alpha_start,
    )


def presets(
    paper: Mapping[str, Any],
    small: Mapping[str, Any],
    *,
    families: Mapping[str, Mapping[str, Any]] | None = None,
    tasks: Mapping[str, Mapping[str, Any]] | None = None,
) -> Preset:
    """`paper`: the source's settings, by family and task where these differ, and `small` on small
    tasks. `small`: for a training of minutes on any task."""

    def preset(task: TaskSpec | None, name: str) -> Mapping[str, Any] | None:
        own = {} if task is None else (tasks or {}).get(task.id, {})
        is_small = task is not None and _is_small(task)
        if name == "small" or (name == "paper" and is_small):
            hints = {} if task is None else task.hints
            return {**small, **hints, **(own if is_small else {})}
        if name == "paper":
            by_family = {} if task is None else (families or {}).get(task.family, {})
            return {**paper, **by_family, **own}
        return None

    return preset


def _is_small(task: TaskSpec) -> bool:
    return task.family == "small" or bool(task.hints)
