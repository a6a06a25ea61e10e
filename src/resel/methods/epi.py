"""EPI: a context that helps to foretell the next observation, and SAC on it.

As RESeL's paper describes it (Eq. eq_dm_ce_loss): context encoder and transition model descend on
the error of the foretold observation. Zhou et al. 2019, Environment Probing Interaction Policies,
have a policy of its own that probes the world first, and then a reset; that is not what the paper
compares. Frame, sizes and rates are ESCP's (Luo et al. 2022), whose early code compares one
prediction with all next observations of its window; here it is compared with its own.

The order of an update is: transition model, then SAC's, in which the context learns by the model as
it is then.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from resel import losses
from resel.config import Config, positive
from resel.data import Batch
from resel.methods._latent import CONTEXT, ESCP_SOURCE, SMALL, LatentLearner
from resel.methods._off_policy import ESCP, presets
from resel.methods._recurrent import RecurrentSACSettings
from resel.methods.base import Metrics
from resel.methods.registry import Method
from resel.networks import ContextInputs, Dimensions, LatentNetwork, Network, TransitionModel


@dataclass(frozen=True)
class EPISettings(RecurrentSACSettings):
    """The hyperparameters of EPI."""

    lr_transition: float = 3e-4
    """Learning rate of the transition model."""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "lr_transition")


class EPILearner(LatentLearner):
    """Transition model and context descend on the same error."""

    settings: EPISettings

    @staticmethod
    def networks_of(config: Config, dims: Dimensions) -> dict[str, Network]:
        networks = LatentLearner.networks_of(config, dims)
        return {**networks, "transition": TransitionModel(dims, config.network)}

    def update(self, batch: Batch, *, want_metrics: bool = False) -> Metrics:
        batch = self._with_contexts(batch.to(self.device))
        metrics: Metrics = {}
        context = batch.extras[CONTEXT].detach()
        loss = self._error(batch, self.inputs(batch)[0], context)
        self.step("transition", [loss], metrics if want_metrics else None)
        metrics |= super().update(batch, want_metrics=want_metrics)
        return metrics | {"transition_loss": loss.detach()} if want_metrics else metrics

    def _context_loss(self, batch: Batch, inputs: ContextInputs) -> Tensor:
        return self._error(batch, inputs, batch.extras[CONTEXT], frozen=True)

    def _error(
        self, batch: Batch, inputs: ContextInputs, context: Tensor, *, frozen: bool = False
    ) -> Tensor:
        observation, action = inputs.observation, self.dims.fed_back(batch.action)
        known = [part[:, :-1] for part in (observation, context, action)]
        change = self.networks["transition"](known, frozen=frozen)
        error = losses.transition_error(change, observation[:, :-1], observation[:, 1:])
        return losses.masked_mean(error, batch.mask[:, :-1], batch.steps)


METHOD = Method(
    name="epi",
    title="EPI",
    summary="SAC on a context that helps a model to foretell the next observation",
    source="Zhou et al. 2019, Environment Probing Interaction Policies (Wenxuan-Zhou/EPI), in the "
    f"frame of {ESCP_SOURCE}",
    learner=EPILearner,
    settings=EPISettings,
    network=LatentNetwork,
    encoder="gru",
    preset=presets(
        {**ESCP, "batch_windows": 16}, {**SMALL, "batch_windows": 8, "lr_transition": 1e-3}
    ),
    spaces=("Box",),
    figures=("table-gravity", "fig-gravity"),
)
