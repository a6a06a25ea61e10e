"""The context-encoder-specific optimiser: two named parameter groups per network.

The parameters of a group lie side by side in one tensor, and so do their gradients: optimiser,
target update and numerical checks take one call for a group, not one for each of its parameters.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from resel.config import LrScope
from resel.networks import Critic, Policy

_ALIGNMENT = 16
"""Numbers between which a parameter may begin: a cache line of single precision."""


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that learn at one rate. Making the group moves them into `block`."""

    name: str
    parameters: Mapping[str, Tensor]
    lr: float
    block: Tensor = field(init=False, repr=False)
    """All of them in one row with zeros between; so is its gradient, if they are to learn."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "block", _join(list(self.parameters.values())))

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


def _join(parameters: Sequence[Tensor]) -> Tensor:
    """One tensor of which the parameters, and their gradients if they take any, become views."""
    room = [-(-p.numel() // _ALIGNMENT) * _ALIGNMENT for p in parameters]
    learns = any(p.requires_grad for p in parameters)
    block = parameters[0].new_zeros(sum(room))
    gradient = torch.zeros_like(block) if learns else None
    for parameter, end, size in zip(parameters, itertools.accumulate(room), room, strict=True):
        place = slice(end - size, end - size + parameter.numel())
        parameter.data = block[place].view_as(parameter).copy_(parameter.detach())
        if gradient is not None:
            parameter.grad = gradient[place].view_as(parameter)
    block.requires_grad_(learns)
    block.grad = gradient
    return block


def build_optimizer(groups: Sequence[ParameterGroup]) -> torch.optim.AdamW:
    """AdamW without weight decay, one torch group for each of ours.

    Fused, because that one leaves out a step by itself when its `found_inf` is 1.
    """
    return torch.optim.AdamW(
        [{"params": [g.block], "lr": g.lr, "name": g.name} for g in groups],
        weight_decay=0.0,
        fused=True,
    )


def gradients(groups: Sequence[ParameterGroup]) -> list[Tensor]:
    """The gradient of each group, in one row."""
    return [g.block.grad for g in groups if g.block.grad is not None]
