"""A2C-GRU: advantage actor-critic on one GRU for policy and value.

Mnih et al. 2016, Asynchronous Methods for Deep Reinforcement Learning, with all environments in
step, in the form that Ni et al. 2022 run on partially observed tasks (Kostrikov's code): rollouts
of five steps, advantages that look ahead to their end, RMSprop and no bonus for entropy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from resel.config import Count
from resel.errors import ConfigError
from resel.methods import _on_policy
from resel.methods._off_policy import presets
from resel.methods.registry import Method
from resel.networks import ActorCriticNetwork, LikelihoodPolicy
from resel.optim import ParameterGroup, RMSprop


@dataclass(frozen=True)
class A2CSettings(_on_policy.OnPolicySettings):
    """The hyperparameters of A2C."""

    lr_policy: float = 7e-4
    """Learning rate of policy and value."""
    gae_lambda: float = 1.0
    """How far advantages look ahead before they rely on the value: 0 one step, 1 all."""
    rollout_steps: Count = 5
    """Steps of each environment that are learned from at a time."""
    epochs: Count = 1
    """Passes over a rollout."""
    minibatches: Count = 1
    """Parts of a pass, each some of the environments."""
    entropy_coefficient: float = 0.0
    """Weight of the policy's entropy."""


class A2CLearner(_on_policy.OnPolicyLearner):
    """The plain losses of policy and value."""

    settings: A2CSettings

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        if self.auto_rate is not None:
            raise ConfigError(
                "lr_context_encoder=auto takes steps of Adam apart, and a2c-gru learns by RMSprop: "
                "give a number."
            )

    def optimizer_of(self, groups: Sequence[ParameterGroup]) -> torch.optim.Optimizer:
        return RMSprop(groups)

    def terms(
        self, policy: LikelihoodPolicy, value: Tensor, action: Tensor, known: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        gain = -known["advantage"] * policy.log_prob(action)
        return gain, (known["target"] - value).square()


_SMALL: dict[str, Any] = {**_on_policy.PAPER, "size": "small", "bootstrap_truncated": True}

METHOD = Method(
    name="a2c-gru",
    title="A2C-GRU",
    summary="Advantage actor-critic with one GRU for policy and value, 16 environments in step",
    source="Mnih et al. 2016, Asynchronous Methods for Deep Reinforcement Learning; as run by Ni "
    "et al. 2022 (twni2016/pomdp-baselines)",
    learner=A2CLearner,
    settings=A2CSettings,
    network=ActorCriticNetwork,
    encoder="gru",
    preset=presets(_on_policy.PAPER, _SMALL),
    figures=("table-pomdp", "fig-pomdp"),
)
