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

from resel.networks import LrScope, Network
from resel.optim._uncompiled import AdamW

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
    network: Network, lr_context_encoder: float, lr_other: float, scope: LrScope = "encoder"
) -> list[ParameterGroup]:
    """`context_encoder` and `other`; pre-encoders and heads belong to `other`.

    With scope `rnn` the first rate covers only the recurrent layers of the context encoder. A
    network without a context encoder is one group, `other`.
    """
    chosen = {id(p) for p in network.context_parameters(scope)}
    named = dict(network.named_parameters())
    parts = {
        "context_encoder": (
            {n: p for n, p in named.items() if id(p) in chosen},
            lr_context_encoder,
        ),
        "other": ({n: p for n, p in named.items() if id(p) not in chosen}, lr_other),
    }
    return [ParameterGroup(name, held, lr) for name, (held, lr) in parts.items() if held]


def _join(parameters: Sequence[Tensor]) -> Tensor:
    """One tensor of which the parameters, and their gradients if they take any, become views."""
    room = [-(-p.numel() // _ALIGNMENT) * _ALIGNMENT for p in parameters]
    learns = any(p.requires_grad for p in parameters)
    block = parameters[0].new_zeros(sum(room))
    gradient = torch.zeros_like(block) if learns else None
    for parameter, end, size in zip(parameters, itertools.accumulate(room), room, strict=True):
        step = slice(end - size, end - size + parameter.numel())
        parameter.data = block[step].view_as(parameter).copy_(parameter.detach())
        if gradient is not None:
            parameter.grad = gradient[step].view_as(parameter)
    block.requires_grad_(learns)
    block.grad = gradient
    return block


def build_optimizer(
    groups: Sequence[ParameterGroup], weight_decay: float = 0.0, eps: float = 1e-8
) -> AdamW:
    """AdamW, by default without weight decay, one torch group for each of ours.

    Fused, because that one leaves out a step by itself when its `found_inf` is 1.
    """
    return AdamW(
        [{"params": [g.block], "lr": g.lr, "name": g.name} for g in groups],
        weight_decay=weight_decay,
        eps=eps,
        fused=True,
    )


def gradients(groups: Sequence[ParameterGroup]) -> list[Tensor]:
    """The gradient of each group, in one row."""
    return [g.block.grad for g in groups if g.block.grad is not None]


def clip_gradients(groups: Sequence[ParameterGroup], longest: float) -> None:
    """Shorten the gradient of all groups together to this length, if it is longer."""
    rows = gradients(groups)
    length = torch.stack(torch._foreach_norm(rows)).norm()
    torch._foreach_mul_(rows, (longest / (length + 1e-6)).clamp(max=1.0))


def adam_steps(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """By group, what its last step subtracted at a rate of 1; nothing before the first step."""
    found = {}
    for group in optimizer.param_groups:
        state = optimizer.state.get(group["params"][0])
        if not state:
            return {}
        (beta1, beta2), count = group["betas"], state["step"]
        mean = state["exp_avg"] / (1 - beta1**count)
        deviation = (state["exp_avg_sq"] / (1 - beta2**count)).sqrt()
        found[group["name"]] = mean / (deviation + group["eps"])
    return found


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Moments and counts, by number of the parameter and name."""
    return {
        f"{index}.{key}": value.clone()
        for index, entry in optimizer.state_dict()["state"].items()
        for key, value in entry.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Take over what `optimizer_tensors` gave; a ValueError for what no step could use."""
    state: dict[int, dict[str, Tensor]] = {}
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for name, tensor in tensors.items():
        index, key = name.split(".", 1)
        if tensor.dim() and tensor.shape != parameters[int(index)].shape:
            raise ValueError(f"{key} of parameter {index} has shape {tuple(tensor.shape)}")
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"{key} of parameter {index} is not finite")
        # A copy: the optimiser would go on writing into what it was given.
        state.setdefault(int(index), {})[key] = tensor.clone()
    saved = optimizer.state_dict()
    saved["state"] = state
    optimizer.load_state_dict(saved)
