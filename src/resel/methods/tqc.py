"""TQC: SAC whose critics give distributions, the largest quantiles of which the target leaves out.

Kuznetsov et al. 2020, Controlling Overestimation Bias with Truncated Mixture of Continuous
Distributional Quantile Critics, Algorithm 1. The order of an update is: target, critics, soft
target update, policy, temperature; the released code forms the policy's loss before the critics'
step. It learns from step 256 on; here, where only whole episodes are stored, from the end of the
first episode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from resel import losses
from resel.config import Config, Count, at_least, scaled
from resel.data import Batch
from resel.errors import ConfigError
from resel.methods._off_policy import SoftSettings, presets
from resel.methods.registry import Method
from resel.methods.sac import SACLearner
from resel.networks import ContextInputs, Dimensions, Network, PlainNetwork, StochasticPolicy


@dataclass(frozen=True)
class TQCSettings(SoftSettings):
    """The hyperparameters of TQC."""

    batch_transitions: Count = 256
    """Single steps in a batch, drawn uniformly."""
    n_critics: Count = 5
    """Critics."""
    quantiles: Count = 25
    """Quantiles of each critic."""
    dropped_quantiles: Count = 2
    """How many of these, counted for each critic, the target leaves out at the top."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "batch_transitions", "n_critics", "quantiles")
        at_least(self, 0, "dropped_quantiles")
        if self.dropped_quantiles >= self.quantiles:
            raise ConfigError(
                f"dropped_quantiles={self.dropped_quantiles} leaves none of "
                f"quantiles={self.quantiles}: lower it."
            )


@dataclass(frozen=True)
class TQCNetwork(PlainNetwork):
    """Sizes of policy and critics, the latter larger."""

    critic_width: Count | None = scaled(512)
    """Width of the critic's hidden layers; None takes the policy's sizes."""
    critic_layers: Count | None = 3
    """Hidden layers of the critic; None takes the policy's."""


class TQCLearner(SACLearner):
    """One update of TQC: SAC's, but for the critics."""

    settings: TQCSettings

    @staticmethod
    def networks_of(config: Config, dims: Dimensions) -> dict[str, Network]:
        settings: TQCSettings = config.algorithm
        return {
            "policy": config.network.policy(config, dims, deterministic=False),
            "critic": config.network.critic(config, dims, settings.n_critics, settings.quantiles),
        }

    def _target(
        self, batch: Batch, inputs: ContextInputs, policy: StochasticPolicy, alpha: Tensor
    ) -> Tensor:
        """The kept target quantiles (rows, length - 1, K), from one step further."""
        settings = self.settings
        draw = policy.draw(self.generators["noise"])
        embedded = self._embedded(self.target_critic, batch, inputs)
        z = self.target_critic.values(embedded, draw.action)  # (E, rows, length, M)
        return losses.quantile_target(
            self.rewards(batch)[:, :-1],
            batch.terminated[:, :-1],
            losses.truncated_quantiles(z[:, :, 1:], settings.dropped_quantiles),
            draw.log_prob[:, 1:],
            alpha if settings.critic_entropy else torch.zeros_like(alpha),
            settings.gamma,
        )

    @staticmethod
    def _critic_loss(q: Tensor, y: Tensor, mask: Tensor, n: int) -> Tensor:
        return losses.quantile_huber_loss(q, y, mask, n)

    @staticmethod
    def _judgement(q: Tensor) -> Tensor:
        """The mean of all quantiles of all critics."""
        return q.mean((0, 3))

    @staticmethod
    def _means(q: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return q.mean((0, 3)), y.mean(-1)


_SMALL: dict[str, Any] = {
    "size": "tiny",
    "lr_policy": 1e-3,
    "lr_critic": 1e-3,
    "lr_alpha": 3e-3,
    "tau": 0.01,
    "batch_transitions": 64,
    "n_critics": 2,
    "critic_layers": 2,
    "warmup_steps": 1000,
}

METHOD = Method(
    name="tqc",
    title="TQC",
    summary="SAC with distributional critics, the largest quantiles left out; no memory",
    source="Kuznetsov et al. 2020, Controlling Overestimation Bias with Truncated Mixture of "
    "Continuous Distributional Quantile Critics (SamsungLabs/tqc_pytorch)",
    learner=TQCLearner,
    settings=TQCSettings,
    network=TQCNetwork,
    encoder=None,
    preset=presets(
        {"warmup_steps": 0, "learn_after": 256},
        _SMALL,
        tasks={
            "Hopper-v2": {"dropped_quantiles": 5},
            "HalfCheetah-v2": {"dropped_quantiles": 0},
        },
    ),
    spaces=("Box",),
    figures=("table-mdp",),
)
