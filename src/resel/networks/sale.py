"""SALE: policy and critics that read learned embeddings of states, and of states with actions.

Fujimoto et al. 2023, For SALE: State-Action Representation Learning for Deep Reinforcement
Learning. The embeddings are learned by a loss of their own. Policy and critics read a copy of them
that stands still for a while, and hold it themselves: where they are copied, it goes with them.

Glossary
    N steps, E critics, Z size of an embedding
    zs = f(s), zsa = g(zs, a); f and g are learned so that zsa is f(s') of the next step
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from resel.config import Count, at_least, scaled
from resel.networks.base import CriticNetwork, Network, PolicyNetwork
from resel.networks.distributions import Deterministic
from resel.networks.encoders import State
from resel.networks.heads import (
    CRITIC_BOUND,
    POLICY_BOUND,
    ActivatedHeads,
    activated_mlp,
    initialise,
)
from resel.networks.inputs import ContextInputs, Dimensions

_EPS = 1e-8
_Module = TypeVar("_Module", bound=nn.Module)


@dataclass(frozen=True)
class SALENetwork:
    """Sizes of embeddings, policy and critics."""

    embedding: Count = scaled(256)
    """Size of an embedding, and of the layers that make it."""
    head_width: Count = scaled(256)
    """Width of the hidden layers of policy and critics, the first of which reads no embedding."""
    head_layers: Count = 2
    """Hidden layers behind that first one."""

    def __post_init__(self) -> None:
        at_least(self, 1, "embedding", "head_width", "head_layers")


def average_l1_norm(x: Tensor) -> Tensor:
    """x / mean |x| over the last dimension: keeps embeddings from growing or vanishing."""
    return x / x.abs().mean(-1, keepdim=True).clamp(min=_EPS)


def frozen(module: _Module) -> _Module:
    """A copy whose weights are buffers: saved and copied with it, but learned by nobody."""
    module = copy.deepcopy(module)
    for part in list(module.modules()):
        for name, parameter in list(part.named_parameters(recurse=False)):
            delattr(part, name)
            part.register_buffer(name, parameter.detach())
    return module


class Embeddings(Network):
    """f and g."""

    def __init__(self, dims: Dimensions, sizes: SALENetwork) -> None:
        super().__init__()
        size = sizes.embedding
        self.f = activated_mlp(dims.observation, [size] * 2, size, "elu", "torch", CRITIC_BOUND)
        self.g = activated_mlp(size + dims.action, [size] * 2, size, "elu", "torch", CRITIC_BOUND)

    def of_state(self, observation: Tensor) -> Tensor:
        """zs. (..., Z)"""
        return average_l1_norm(self.f(observation))

    def of_both(self, zs: Tensor, action: Tensor) -> Tensor:
        """zsa. (..., Z)"""
        zsa: Tensor = self.g(torch.cat([zs, action], -1))
        return zsa


class SALEPolicy(PolicyNetwork):
    """pi(s, zs), one action."""

    def __init__(
        self, dims: Dimensions, sizes: SALENetwork, embeddings: Embeddings, noise: float
    ) -> None:
        super().__init__()
        self._noise = noise
        self.embeddings = frozen(embeddings)
        self.first = nn.Linear(dims.observation, sizes.head_width)
        self.head = activated_mlp(
            sizes.head_width + sizes.embedding,
            [sizes.head_width] * sizes.head_layers,
            dims.action,
            "relu",
            "torch",
            POLICY_BOUND,
        )

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> Deterministic:
        with torch.no_grad():
            zs = self.embeddings.of_state(inputs.observation)
        own = average_l1_norm(self.first(inputs.observation))
        return Deterministic.from_output(self.head(torch.cat([own, zs], -1)), self._noise)

    def step(self, inputs: ContextInputs, state: State) -> tuple[Deterministic, State]:
        return self(inputs, torch.empty(0)), state


class _Embedded(NamedTuple):
    """What the critics know before the action."""

    observation: Tensor
    zs: Tensor


class SALECritic(CriticNetwork):
    """Q(s, a, zsa, zs) of E heads, which have nothing in common but the embeddings."""

    def __init__(
        self, dims: Dimensions, sizes: SALENetwork, embeddings: Embeddings, n_critics: int
    ) -> None:
        super().__init__()
        self.embeddings = frozen(embeddings)
        inputs = dims.observation + dims.action
        self.weight = nn.Parameter(torch.empty(n_critics, sizes.head_width, inputs))
        self.bias = nn.Parameter(torch.empty(n_critics, sizes.head_width))
        initialise(self.weight, self.bias, "torch", None)
        self.heads = ActivatedHeads(
            n_critics,
            sizes.head_width + 2 * sizes.embedding,
            [sizes.head_width] * sizes.head_layers,
            1,
            "elu",
            "torch",
            CRITIC_BOUND,
        )

    def embed(self, inputs: ContextInputs, is_first: Tensor) -> _Embedded:
        with torch.no_grad():
            return _Embedded(inputs.observation, self.embeddings.of_state(inputs.observation))

    def embed_step(self, inputs: ContextInputs, state: State) -> tuple[_Embedded, State]:
        observation = inputs.observation[:, None]
        return _Embedded(observation, self.embeddings.of_state(observation)), state

    def values(
        self,
        embedded: _Embedded,
        action: Tensor | None = None,
        heads: Tensor | None = None,
        *,
        frozen: bool = False,
    ) -> Tensor:
        assert action is not None, "actions are Box ones"
        shape = action.shape[:-1]
        observation, zs, action = (x.flatten(0, -2) for x in (*embedded, action))  # (N, ...)
        layer: list[Tensor] = [self.weight, self.bias]
        if frozen:
            layer = [part.detach() for part in layer]
        if heads is not None:
            layer = [part.index_select(0, heads) for part in layer]
        weight, bias = layer
        both = torch.cat([observation, action], -1).expand(len(weight), -1, -1)
        own = average_l1_norm(torch.baddbmm(bias[:, None], both, weight.transpose(1, 2)))
        known = torch.cat([self.embeddings.of_both(zs, action), zs], -1)  # (N, 2 Z)
        x = torch.cat([own, known.expand(len(weight), -1, -1)], -1)  # (E, N, ...)
        q: Tensor = self.heads(x, heads, frozen=frozen)
        return q.view(len(weight), *shape)
