"""The context-encoder-specific optimiser: two named parameter groups per network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from resel.config import LrScope
from resel.networks import Critic, Policy


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that learn at one rate."""

    name: str
    parameters: Mapping[str, Tensor]
    lr: float

    @property
    def count(self) -> int:
        """Numbers in the group."""
        return sum(p.numel() for p in self.parameters.values())


def parameter_groups(
    network: Policy | Critic, lr_context_encoder: float, lr_other: float, scope: LrScope
) -> list[ParameterGroup]:
    """`context_encoder` and `other`; pre-encoders and heads belong to `other`.

    With scope `rnn` the small rate covers only the recurrent layers of the context encoder.
    """
    encoder = network.trunk.context_encoder
    chosen = {id(p) for p in (encoder.rnn if scope == "rnn" else encoder).parameters()}
    named = dict(network.named_parameters())
    return [
        ParameterGroup(
            "context_encoder",
            {name: p for name, p in named.items() if id(p) in chosen},
            lr_context_encoder,
        ),
        ParameterGroup(
            "other", {name: p for name, p in named.items() if id(p) not in chosen}, lr_other
        ),
    ]


def build_optimizer(groups: Sequence[ParameterGroup]) -> torch.optim.AdamW:
    """AdamW without weight decay, one torch group for each of ours.

    Fused, because that one leaves out a step by itself when its `found_inf` is 1.
    """
    return torch.optim.AdamW(
        [{"params": list(g.parameters.values()), "lr": g.lr, "name": g.name} for g in groups],
        weight_decay=0.0,
        fused=True,
    )


def gradient_norms(groups: Sequence[ParameterGroup]) -> dict[str, Tensor]:
    """L2 norm of each group's gradient, left on its device."""
    grads = [[p.grad for p in g.parameters.values() if p.grad is not None] for g in groups]
    each = torch.stack(torch._foreach_norm([grad for own in grads for grad in own]))
    parts = torch.split(each, [len(own) for own in grads])
    return {group.name: part.norm() for group, part in zip(groups, parts, strict=True)}
