"""What a step of some of a policy's parameters does to its outputs along trajectories.

A step of the context encoder is carried on by the hidden state, a step of the other layers is not:
the paper's amplification. Here are the two halves of its measurement, for any step and any rates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from resel.networks import (
    Categorical,
    ContextInputs,
    CriticNetwork,
    PolicyNetwork,
    by_running_statistics,
)
from resel.optim.groups import ParameterGroup


class PackedInputs(NamedTuple):
    """Trajectories as the networks read them."""

    inputs: ContextInputs
    is_first: Tensor
    mask: Tensor  # (rows, length)


@torch.no_grad()
def policy_outputs(policy: PolicyNetwork, sequences: Sequence[PackedInputs]) -> list[Tensor]:
    """Of each sequence, what the policy would do at its steps: tanh(mean) or probabilities."""
    found = []
    for inputs, is_first, mask in sequences:
        with by_running_statistics(policy):
            actions = policy(inputs, is_first)
        output = actions.log_probs.exp() if isinstance(actions, Categorical) else actions.mode()
        found.append(output[mask].double())  # (steps, A)
    return found


@torch.no_grad()
def critic_outputs(
    critic: CriticNetwork, embed: Callable[[], Any], mask: Tensor, action: Tensor
) -> Tensor:
    """What the critic's heads think of the actions taken, (steps, heads).

    `embed` gives what they read besides, mask (rows, length) the steps that count.
    """
    with by_running_statistics(critic):
        values = critic.values_of(embed(), action)
    return values[:, mask].T.double()


@contextmanager
def moved(
    groups: Sequence[ParameterGroup], steps: Mapping[str, Tensor], rates: Mapping[str, float]
) -> Iterator[None]:
    """The groups after a step at these rates, by name; put back to the bit afterwards.

    `steps` are what the optimiser would subtract at a rate of 1, each as long as its group's block.
    """
    before = [group.block.detach().clone() for group in groups]
    try:
        with torch.no_grad():
            for group in groups:
                group.block.sub_(steps[group.name], alpha=rates[group.name])
        yield
    finally:
        with torch.no_grad():
            for group, block in zip(groups, before, strict=True):
                group.block.copy_(block)
