"""PPO-GRU: proximal policy optimisation on one GRU for policy and value.

Schulman et al. 2017, Proximal Policy Optimization Algorithms, in the form that Ni et al. 2022 run
on partially observed tasks (Kostrikov's code): the memory reads observations alone, rows of a
minibatch begin with the memory that was there when the rollout began, and a step that a time limit
cut teaches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from resel import losses
from resel.config import one_of, positive
from resel.methods import _on_policy
from resel.methods._off_policy import presets
from resel.methods.registry import Method
from resel.networks import ActorCriticNetwork, LikelihoodPolicy

ValueLoss = Literal["squared", "huber"]


@dataclass(frozen=True)
class PPOSettings(_on_policy.OnPolicySettings):
    """The hyperparameters of PPO."""

    clip: float = 0.2
    """How far the probability ratio, and the value, may move in the losses of one rollout."""
    value_loss: ValueLoss = "squared"
    """Errors of the value count squared, or from 1 on by their size (huber)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "clip")
        one_of(self, "value_loss", ValueLoss)


class PPOLearner(_on_policy.OnPolicyLearner):
    """The clipped losses of policy and value."""

    settings: PPOSettings

    def scaled(self, advantage: Tensor, mask: Tensor) -> Tensor:
        return losses.normalized(advantage, mask)

    def terms(
        self, policy: LikelihoodPolicy, value: Tensor, action: Tensor, known: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        clip = self.settings.clip
        log_prob, huber = policy.log_prob(action), self.settings.value_loss == "huber"
        off = losses.clipped_value_term(value, known["value"], known["target"], clip, huber=huber)
        return (
            losses.clipped_policy_term(log_prob, known["log_prob"], known["advantage"], clip),
            off / 2,
        )


_SMALL: dict[str, Any] = {
    **_on_policy.PAPER,
    "size": "small",
    "lr_policy": 1e-3,
    "epochs": 10,
    "bootstrap_truncated": True,
}

METHOD = Method(
    name="ppo-gru",
    title="PPO-GRU",
    summary="PPO with one GRU for policy and value, from rollouts of 16 environments",
    source="Schulman et al. 2017, Proximal Policy Optimization Algorithms; as run by Ni et al. "
    "2022 (twni2016/pomdp-baselines)",
    learner=PPOLearner,
    settings=PPOSettings,
    network=ActorCriticNetwork,
    encoder="gru",
    preset=presets(_on_policy.PAPER, _SMALL),
    figures=("table-pomdp", "fig-pomdp"),
)
