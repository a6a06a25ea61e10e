"""RL2: PPO through a GRU that is not reset between the episodes of a trial.

Duan et al. 2016, RL^2: Fast Reinforcement Learning via Slow Reinforcement Learning, as Zintgraf et
al. 2020 run it beside VariBAD: the memory reads observation, action and reward, policy and value
read the memory alone, and what one episode has shown is known in the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from resel.config import Count, scaled
from resel.methods import _on_policy
from resel.methods._off_policy import presets
from resel.methods.ppo_gru import PPOLearner, PPOSettings, ValueLoss
from resel.methods.registry import Method
from resel.networks import ActorCriticNetwork, Initialisation


@dataclass(frozen=True)
class TrialPPOSettings(PPOSettings):
    """The hyperparameters of PPO on trials of several episodes."""

    lr_policy: float = 7e-4
    """Learning rate of policy and value."""
    gamma: float = 0.97
    """Discount."""
    gae_lambda: float = 0.9
    """How far advantages look ahead before they rely on the value: 0 one step, 1 all."""
    rollout_steps: Count = 800
    """Steps of each environment that are learned from at a time."""
    epochs: Count = 2
    """Passes over a rollout."""
    clip: float = 0.1
    """How far the probability ratio, and the value, may move in the losses of one rollout."""
    value_loss: ValueLoss = "huber"
    """Errors of the value count squared, or from 1 on by their size (huber)."""
    bootstrap_truncated: bool = True
    """Whether an episode that was cut counts on with the value of its last observation; else that
    step teaches nothing."""
    normalize_observations: bool = False
    """Scale observations by their running mean and deviation, saved with the agent."""


@dataclass(frozen=True)
class RL2Network(ActorCriticNetwork):
    """Sizes of policy and value."""

    observation_embedding: Count = scaled(32)
    """Outputs of the layer that embeds o_t for the context encoder; 0 hands over o_t itself."""
    action_embedding: Count = scaled(16)
    """Outputs of the layer that embeds the last action; 0 leaves it out."""
    reward_embedding: Count = scaled(16)
    """Outputs of the layer that embeds the last reward; 0 leaves it out."""
    width: Count = scaled(128)
    """Width of the context encoder."""
    context_size: Count = scaled(256)
    """Outputs of a linear layer with ReLU behind the encoder; 0 leaves it out."""
    head_width: Count = scaled(128)
    """Width of the hidden layers of policy and value."""
    head_layers: Count = 1
    """Hidden layers of each."""
    head_initialisation: Initialisation = "normc"
    """First weights of the heads: torch's own, fan_out, orthogonal or normc."""


class RL2Learner(PPOLearner):
    """PPO with the usual epsilon of Adam."""

    adam_epsilon: ClassVar[float] = 1e-8
    settings: TrialPPOSettings


SMALL: dict[str, Any] = {
    **_on_policy.PAPER,
    "size": "small",
    "lr_policy": 1e-3,
    "rollout_steps": 80,
    "epochs": 8,
    "clip": 0.2,
}
"""For a training of minutes."""

METHOD = Method(
    name="rl2",
    title="RL2",
    summary="PPO with a memory that lasts over all episodes of a trial, and reads rewards",
    source="Duan et al. 2016, RL^2: Fast Reinforcement Learning via Slow Reinforcement Learning; "
    "as run by Zintgraf et al. 2020 (lmzintgraf/varibad)",
    learner=RL2Learner,
    settings=TrialPPOSettings,
    network=RL2Network,
    encoder="gru",
    preset=presets(
        _on_policy.PAPER,
        SMALL,
        tasks={
            "AntDir-v0": {"rollout_steps": 200, "clip": 0.05},
            "CheetahDir-v0": {"rollout_steps": 200},
        },
    ),
    figures=("fig-meta",),
)
