"""What comparison methods with a context encoder share: windows, and a rate of its own for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from resel.config import Count, at_least
from resel.methods._critic_observations import CriticObservations
from resel.methods._encoder_rate import EncoderRate
from resel.methods._off_policy import AlphaLoss, SoftSettings


@dataclass(frozen=True)
class RecurrentSettings(EncoderRate):
    """Beside the settings of the method without a memory."""

    batch_windows: Count = 64
    """Windows in a batch, drawn uniformly over all steps at which one can begin."""
    context_length: Count = 64
    """Steps of a window, which begins with nothing before it. In acting a memory is kept for the
    whole episode; an encoder with a `window` sees that many of the newest steps."""

    def __post_init__(self) -> None:
        EncoderRate.__post_init__(self)
        at_least(self, 1, "batch_windows", "context_length")


@dataclass(frozen=True)
class RecurrentSACSettings(RecurrentSettings, SoftSettings):
    """The hyperparameters of recurrent SAC."""

    alpha_loss: AlphaLoss = "exp"
    """What the temperature descends on: log alpha, or alpha itself (through exp), times how far the
    entropy is above its target."""

    def __post_init__(self) -> None:
        SoftSettings.__post_init__(self)
        RecurrentSettings.__post_init__(self)


@dataclass(frozen=True)
class SequenceSACSettings(CriticObservations, RecurrentSACSettings):
    """The same where the critic has a memory of its own, beside which it can be told more."""

    def __post_init__(self) -> None:
        CriticObservations.__post_init__(self)
        RecurrentSACSettings.__post_init__(self)


PAPER: dict[str, Any] = {"initialisation": "orthogonal", "warmup_steps": 10_000}
"""What Ni et al. set besides the defaults; the first is of encoders with gates."""
SMALL: dict[str, Any] = {
    **PAPER,
    "size": "tiny",
    "batch_windows": 8,
    "warmup_steps": 1000,
}
"""For a training of minutes."""
QUICK_SAC: dict[str, Any] = {"lr_policy": 1e-3, "lr_critic": 1e-3, "lr_alpha": 3e-3, "tau": 0.01}
"""Rates of SAC for such a training."""
GPIDE_SOURCE = (
    "Char and Schneider 2023, PID-Inspired Inductive Biases for Deep Reinforcement Learning "
    "(IanChar/GPIDE)"
)
GPIDE: dict[str, Any] = {"window": 65, "warmup_steps": 0, "learn_after": 10_000}
"""What Char and Schneider set besides the defaults: 64 steps and the observation behind them, and
no random actions; the untrained policy acts until learning begins."""
GPIDE_SMALL: dict[str, Any] = {
    **GPIDE,
    **QUICK_SAC,
    "size": "tiny",
    "batch_windows": 8,
    "learn_after": 1000,
}
"""The same for a training of minutes."""
TRIALS: dict[str, Any] = {
    "critic_shortcut": 64,
    "head_width": 128,
    "head_layers": 3,
    "batch_windows": 32,
    "context_length": 400,
    "warmup_steps": 200_000,
    "updates_per_step": 0.02,
}
"""Theirs on meta-RL tasks, with whole trials of 400 steps: 500 of them at random, then 200 updates
for every 25."""
WIND: dict[str, Any] = {
    "action_embedding": 8,
    "reward_embedding": 0,
    "width": 64,
    "critic_shortcut": 40,
    "head_width": 128,
    "head_layers": 2,
    "gamma": 0.9,
    "batch_windows": 64,
    "warmup_steps": 7500,
    "updates_per_step": 500 / 750,
}
"""Theirs on Wind, with episodes of 75 steps: 100 at random, then 500 updates for every 10."""
