"""A policy whose weights may differ from row to row: by a gradient step for each task.

While acting, the memory is what has been added to the weights: nothing at first.

Glossary
    K tasks or rows, N steps of each, P weights in all
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from resel.config import Count, at_least, finite, positive, scaled
from resel.networks.base import PolicyNetwork
from resel.networks.distributions import Gaussian
from resel.networks.encoders import State
from resel.networks.inputs import ContextInputs, Dimensions
from resel.networks.layers import xavier_linear

_LEAST_LOG_STD = math.log(1e-6)


@dataclass(frozen=True)
class AdaptableNetwork:
    """Sizes of the policy."""

    head_width: Count = scaled(64)
    """Width of the hidden layers."""
    head_layers: Count = 2
    """Hidden layers."""
    log_std_start: float = 0.0
    """The log of the standard deviation at the start, before action_scale."""
    action_scale: float = 0.1
    """Actions are the network's outputs times this; the environment cuts them at -1 and 1."""

    def __post_init__(self) -> None:
        at_least(self, 1, "head_width", "head_layers")
        finite(self, "log_std_start")
        positive(self, "action_scale")


class AdaptablePolicy(PolicyNetwork):
    """pi(a | o_t): a Gaussian with one deviation for all situations."""

    def __init__(self, dims: Dimensions, sizes: AdaptableNetwork) -> None:
        super().__init__()
        self._scale = sizes.action_scale
        widths = [dims.observation, *[sizes.head_width] * sizes.head_layers, dims.action]
        self.layers = nn.ModuleList(xavier_linear(*pair) for pair in itertools.pairwise(widths))
        self.log_std = nn.Parameter(torch.full((dims.action,), sizes.log_std_start))

    def flat(self) -> Tensor:
        """All weights in a row. (P,)"""
        return torch.cat([p.reshape(-1) for p in (*self.layers.parameters(), self.log_std)])

    def given(self, observation: Tensor, weights: Tensor) -> Gaussian:
        """Action distributions for (K, N, O), each task with weights (K, P) of its own."""
        k, x, at = len(weights), observation, 0
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, nn.Linear)
            o, i = layer.weight.shape
            w = weights[:, at : at + o * i].view(k, o, i)
            b = weights[:, at + o * i : at + o * i + o].view(k, 1, o)
            x = torch.baddbmm(b, x, w.transpose(1, 2))  # (K, N, outputs)
            x = torch.tanh(x) if number + 1 < len(self.layers) else x
            at += o * i + o
        log_std = weights[:, at:].clamp(min=_LEAST_LOG_STD) + math.log(self._scale)
        return Gaussian(self._scale * x, log_std[:, None].expand_as(x))

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> Gaussian:
        """As it is before it adapts."""
        rows = len(inputs.observation)
        return self.given(inputs.observation, self.flat().expand(rows, -1))

    def step(self, inputs: ContextInputs, state: State) -> tuple[Gaussian, State]:
        policy = self.given(inputs.observation[:, None], self.flat() + state[0])
        return Gaussian(policy.mean[:, 0], policy.log_std[:, 0]), state

    def initial_state(self, rows: int) -> State:
        return (self.log_std.new_zeros(rows, sum(p.numel() for p in self.parameters())),)
