"""TD3+OFE: TD3 on features that are learned by foretelling the next observation.

Ota et al. 2020, Can Increasing Input Dimensionality Improve Deep Reinforcement Learning? An update
is of the features or of TD3 (target, critics, and at every `policy_delay`th of its updates policy
and targets), in turn, each with a batch of its own. Before the first of TD3 there are
`pretraining_updates` of the features alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from resel.config import Config, Count, at_least, positive
from resel.data import Batch, PerStep, Pretrained, Schedule
from resel.errors import ConfigError
from resel.methods._off_policy import presets
from resel.methods.base import Metrics
from resel.methods.registry import Method
from resel.methods.td3 import SMALL, DeterministicSettings, TD3Learner
from resel.networks import Dimensions, Features, Network, OFECritic, OFENetwork, OFEPolicy

_CRITICS = 2
_KINDS = 2
"""Updates of features and of TD3 take turns."""


@dataclass(frozen=True)
class TD3OFESettings(DeterministicSettings):
    """The hyperparameters of TD3+OFE."""

    lr_policy: float = 1e-3
    """Learning rate of the policy."""
    lr_critic: float = 1e-3
    """Learning rate of the critics."""
    lr_features: float = 3e-4
    """Learning rate of the features."""
    batch_transitions: Count = 256
    """Single steps in each of the two batches, drawn uniformly."""
    pretraining_updates: Count = 0
    """Updates of the features alone before anything else learns."""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "lr_features")
        at_least(self, 1, "batch_transitions")
        at_least(self, 0, "pretraining_updates")


class TD3OFELearner(TD3Learner):
    """One update of the features, or one of TD3."""

    batch_statistics: ClassVar[bool] = True
    acts_with: ClassVar[tuple[str, ...]] = ("policy", "features")
    settings: TD3OFESettings

    def __init__(self, config: Config, dims: Dimensions, *arguments: Any) -> None:
        predicted = config.network.predicted_size
        if predicted is not None and predicted > dims.observation:
            raise ConfigError(
                f"predicted_size={predicted} is more than the {dims.observation} numbers of an "
                "observation: lower it, or leave it out to foretell all of them."
            )
        super().__init__(config, dims, *arguments)

    @staticmethod
    def networks_of(config: Config, dims: Dimensions) -> dict[str, Network]:
        features = Features(dims, config.network)
        return {
            "features": features,
            "policy": OFEPolicy(config, dims, features),
            "critic": OFECritic(config, dims, features, _CRITICS),
        }

    @property
    def schedule(self) -> Schedule:
        then = PerStep(_KINDS * self.config.training.updates_per_step)
        return Pretrained(self.settings.pretraining_updates, lambda: self.updates, then)

    @property
    def updates_to_log(self) -> int:
        return _KINDS * super().updates_to_log

    @property
    def learns_policy(self) -> bool:
        number = (self.updates - self.settings.pretraining_updates) // _KINDS + 1
        return number % self.settings.policy_delay == 0

    def update(self, batch: Batch, *, want_metrics: bool = False) -> Metrics:
        number = self.updates - self.settings.pretraining_updates
        if number >= 0 and number % _KINDS == 1:
            return super().update(batch, want_metrics=want_metrics)
        metrics: Metrics = {}
        loss = self._features_loss(batch.to(self.device))
        skipped = self.step("features", [loss], metrics if want_metrics else None)
        self._features.take_in(skipped)
        if want_metrics:
            metrics["features_loss"] = loss.detach()
        self.updates += 1
        return metrics

    @property
    def _features(self) -> Features:
        features = self.networks["features"]
        assert isinstance(features, Features)
        return features

    def _features_loss(self, batch: Batch) -> Tensor:
        """Mean squared error of the foretold observation.

        Only steps that count are normalised together.
        """
        inputs, action = self.inputs(batch)
        mask, observation = batch.mask[:, :-1], inputs.observation
        predicted = self._features.learn(observation[:, :-1][mask], action[:, :-1][mask])
        wanted = observation[:, 1:, : self._features.predicted_size][mask]
        return torch.nn.functional.mse_loss(predicted, wanted)


_SMALL: dict[str, Any] = {
    **SMALL,
    "lr_features": 1e-3,
    "feature_layers": 3,
    "pretraining_updates": 1000,
}

METHOD = Method(
    name="td3-ofe",
    title="TD3+OFE",
    summary="TD3 on features that foretell the next observation; no memory",
    source="Ota et al. 2020, Can Increasing Input Dimensionality Improve Deep Reinforcement "
    "Learning?",
    learner=TD3OFELearner,
    settings=TD3OFESettings,
    network=OFENetwork,
    encoder=None,
    preset=presets(
        {"warmup_steps": 10_000, "pretraining_updates": 10_000},
        _SMALL,
        tasks={
            "HalfCheetah-v2": {"feature_layers": 8},
            # Without the contact forces, which come last.
            "Humanoid-v2": {"feature_layers": 8, "predicted_size": 292},
        },
    ),
    spaces=("Box",),
    figures=("table-mdp",),
)
