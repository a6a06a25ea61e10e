"""How beliefs about a task are learned: the part that both forms of VariBAD share.

All beliefs of a trial foretell rewards, or observations, of all of that trial. Nothing that an
environment tells of its task is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from resel import losses
from resel.config import Count, at_least, one_of, positive
from resel.data import Batch
from resel.methods.base import Learner, Metrics
from resel.networks import BeliefVAE, Decoded, previous


@dataclass(frozen=True)
class BeliefSettings:
    """How beliefs are learned."""

    lr_vae: float = 1e-3
    """Learning rate of the encoder of beliefs and of its decoder."""
    kl_weight: float = 0.1
    """Weight of how far each belief is from the one before."""
    decodes: Decoded = "reward"
    """What beliefs foretell: the reward of a step, or the observation after it."""
    elbo_terms: Count | None = 50
    """Beliefs of a trial, drawn at random, that foretell it; None takes all."""
    decoded_steps: Count | None = 50
    """Steps of a trial, drawn at random, that each of them foretells; None takes all."""

    def __post_init__(self) -> None:
        positive(self, "lr_vae")
        at_least(self, 0, "kl_weight")
        at_least(self, 1, "elbo_terms", "decoded_steps")
        one_of(self, "decodes", Decoded)


def learn_beliefs(learner: Learner, batch: Batch, *, want_metrics: bool) -> Metrics:
    """One step of encoder and decoder on whole trials."""
    metrics: Metrics = {}
    loss, told, moved = belief_values(learner, batch)
    learner.step("vae", [loss], metrics if want_metrics else None)
    if want_metrics:
        metrics |= {
            "vae_loss": loss.detach(),
            "decoder_loss": told.detach(),
            "belief_kl": moved.detach(),
        }
    return metrics


def belief_values(learner: Learner, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """The loss of the beliefs, what they get wrong, and how far they move."""
    vae, settings, generator = (
        learner.networks["vae"],
        learner.settings,
        learner.generators["noise"],
    )
    assert isinstance(vae, BeliefVAE)
    inputs, is_first = learner.inputs(batch)[0], batch.is_first
    mean, log_var = vae(inputs, is_first).chunk(2, -1)  # (rows, length, latent) each
    kl = losses.gaussian_kl(
        mean, log_var / 2, previous(mean, is_first), previous(log_var, is_first) / 2
    )
    noise = torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
    z = mean + (0.5 * log_var).exp() * noise
    after = losses.next_step(inputs.observation)
    target = batch.reward[..., None] if vae.decodes == "reward" else after

    trial, holds = is_first.cumsum(1), losses.with_last(batch.mask, is_first)
    k = _chosen(holds, settings.elbo_terms, generator)
    m = _chosen(batch.mask, settings.decoded_steps, generator)
    steps = (inputs.observation, learner.dims.fed_back(batch.action), after)
    decoded = vae.decode(_at(z, k), *(_at(x, m) for x in steps))  # (rows, K, M, size)
    error = (decoded - _at(target, m)[:, None]).square().mean(-1)
    pairs = _at(trial, k)[:, :, None] == _at(trial, m)[:, None]
    pairs = pairs & _at(holds, k)[:, :, None] & _at(batch.mask, m)[:, None]
    trials = (is_first & batch.mask).sum().clamp(min=1)
    return losses.elbo_loss(_at(kl, k), error, _at(holds, k), pairs, settings.kl_weight, trials)


def _chosen(among: Tensor, count: int | None, generator: torch.Generator) -> Tensor | None:
    """So many slots of each row, at random, first of all those that are meant; None for all."""
    if count is None or count >= among.shape[1]:
        return None
    chance = torch.rand(among.shape, generator=generator, device=among.device)
    return (chance + among).topk(count, dim=1).indices  # (rows, count)


def _at(x: Tensor, slots: Tensor | None) -> Tensor:
    """x at these slots. (rows, length, ...) -> (rows, count, ...)"""
    if slots is None:
        return x
    return x.gather(1, slots.view(*slots.shape, *[1] * (x.dim() - 2)).expand(-1, -1, *x.shape[2:]))
