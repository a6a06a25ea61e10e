"""Off-policy VariBAD: SAC on observations and beliefs about the task.

Dorfman, Shenfeld and Tamar 2021, Offline Meta Learning of Exploration (BOReL), in its form with new
data, as Ni et al. 2022 run it. Beliefs are learned as VariBAD's are, and no gradient of SAC reaches
their encoder. They are looked up with the encoder as it is now, not as it was when a step was
taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from resel.config import Config, Count, at_least
from resel.data import Batch, Sampler, Trajectories
from resel.methods._beliefs import BeliefSettings, learn_beliefs
from resel.methods._encoder_rate import EncoderRate
from resel.methods._off_policy import SoftSettings, presets
from resel.methods._recurrent import QUICK_SAC
from resel.methods.base import Metrics
from resel.methods.registry import Method
from resel.methods.sac import SACLearner
from resel.networks import (
    BeliefCritic,
    BeliefNetwork,
    BeliefPolicy,
    BeliefVAE,
    Dimensions,
    Network,
)

_CRITICS = 2


@dataclass(frozen=True)
class VariBADOffSettings(BeliefSettings, SoftSettings, EncoderRate):
    """The hyperparameters of off-policy VariBAD."""

    alpha: float | None = 0.2
    """Keep the temperature at this value; None tunes it to the target entropy."""
    batch_steps: Count = 4096
    """Whole trials are drawn until a batch holds at least this many steps."""
    vae_every: Count = 14
    """Updates of SAC for each of the beliefs, which learn from the trials of the same batch."""

    def __post_init__(self) -> None:
        for part in (BeliefSettings, SoftSettings, EncoderRate):
            part.__post_init__(self)
        at_least(self, 1, "batch_steps", "vae_every")


class VariBADOffLearner(SACLearner):
    """SAC on beliefs, and now and then the beliefs."""

    acts_with: ClassVar[tuple[str, ...]] = ("policy", "vae")
    encoder_learns_apart: ClassVar[bool] = True
    settings: VariBADOffSettings

    @staticmethod
    def networks_of(config: Config, dims: Dimensions) -> dict[str, Network]:
        vae = BeliefVAE(dims, config, config.algorithm.decodes)
        return {
            "vae": vae,
            "policy": BeliefPolicy(dims, config, vae),
            "critic": BeliefCritic(dims, config, vae, _CRITICS),
        }

    @property
    def sampler(self) -> Sampler:
        return Trajectories(self.settings.batch_steps)

    @property
    def updates_to_log(self) -> int:
        return max(self.settings.vae_every, super().updates_to_log)

    def update(self, batch: Batch, *, want_metrics: bool = False) -> Metrics:
        batch, metrics = batch.to(self.device), Metrics()
        if self.updates % self.settings.vae_every == 0:
            metrics |= learn_beliefs(self, batch, want_metrics=want_metrics)
        return metrics | super().update(batch, want_metrics=want_metrics)


_SMALL: dict[str, Any] = {
    **QUICK_SAC,
    "size": "small",
    "initialisation": "orthogonal",
    "lr_vae": 3e-3,
    "alpha": 0.05,
    "batch_steps": 400,
    "vae_every": 4,
    "warmup_steps": 1000,
}

METHOD = Method(
    name="varibad-off",
    title="VariBad (off-policy)",
    summary="SAC that reads a belief about the task, learned by foretelling rewards",
    source="Dorfman et al. 2021, Offline Meta Learning of Exploration; as run by Ni et al. 2022 "
    "(twni2016/pomdp-baselines)",
    learner=VariBADOffLearner,
    settings=VariBADOffSettings,
    network=BeliefNetwork,
    encoder="gru",
    preset=presets(
        {"initialisation": "orthogonal", "warmup_steps": 10_000},
        _SMALL,
        families={
            "meta-RL": {
                "lr_vae": 3e-4,
                "kl_weight": 0.125,  # beside 50 errors; the source's is 1, beside 400
                "vae_every": 31,
                "warmup_steps": 200_000,
                "updates_per_step": 0.2,
            }
        },
        tasks={
            "Wind-v0": {
                "head_layers": 2,
                "lr_policy": 7e-5,
                "lr_critic": 7e-5,
                "alpha": 0.01,
                "gamma": 0.9,
                "lr_vae": 1e-3,
                "kl_weight": 0.1,
                "vae_every": 14,
                "decodes": "observation",
                "reward_embedding": 0,
                "elbo_terms": None,
                "decoded_steps": None,
                "warmup_steps": 12_000,
                "updates_per_step": 500 / 750,
            },
        },
    ),
    figures=("fig-meta",),
)
