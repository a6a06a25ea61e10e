"""OSI: a context that estimates the hidden parameters of the world, and SAC on it.

As RESeL's paper describes it: the loss of the context is its squared distance to the parameters,
which are known in training. Yu et al. 2017, Preparing for the Unknown: Learning a Universal Policy
with Online System Identification, train in two stages instead, first a policy with the true
parameters and then the estimate; that is not what the paper compares. Frame, sizes and rates are
ESCP's (Luo et al. 2022).
"""

from __future__ import annotations

from torch import Tensor

from resel import losses
from resel.data import Batch
from resel.envs import Told
from resel.errors import ConfigError
from resel.methods._latent import CONTEXT, ESCP_SOURCE, SMALL, LatentLearner
from resel.methods._off_policy import ESCP, presets
from resel.methods._recurrent import RecurrentSACSettings
from resel.methods.registry import Method
from resel.networks import ContextInputs, LatentNetwork


class OSILearner(LatentLearner):
    """The context descends on its error as an estimate of what is hidden."""

    learns_from = ("hidden",)

    def check_told(self, told: Told) -> None:
        super().check_told(told)
        size, room = len(told["hidden"]), self.config.network.context_size
        if size > room:
            raise ConfigError(
                f"info['hidden'] of a reset has {size} numbers, and a context of "
                f"context_size={room} cannot estimate all of them: raise it to {size}."
            )

    def _context_loss(self, batch: Batch, inputs: ContextInputs) -> Tensor:
        context = batch.extras[CONTEXT]
        error = losses.parameter_error(context, batch.extras["hidden"].to(context.dtype))
        return losses.masked_mean(error, batch.mask, batch.steps)


METHOD = Method(
    name="osi",
    title="OSI",
    summary="SAC on a context that estimates the hidden parameters, which are known in training",
    source="Yu et al. 2017, Preparing for the Unknown: Learning a Universal Policy with Online "
    f"System Identification, in the frame of {ESCP_SOURCE}",
    learner=OSILearner,
    settings=RecurrentSACSettings,
    network=LatentNetwork,
    encoder="gru",
    preset=presets({**ESCP, "batch_windows": 16}, {**SMALL, "batch_windows": 8}),
    spaces=("Box",),
    figures=("table-gravity", "fig-gravity"),
)
