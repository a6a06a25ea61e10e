"""Policy and critic of Char and Schneider 2023: the context encoder reads transitions as tokens.

    (o_{t-1}, a_{t-1}, r_{t-1}, o_t - o_{t-1}) --a linear layer for each--> context encoder

At a trajectory's first step o_{t-1} is o_t, so that the difference is zero, as are action and
reward. Some or all kinds go through batch normalisation first. All else is as in `sequence`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from resel.config import Config, Count, at_least, one_of, scaled
from resel.networks.batch_norm import BatchNorm
from resel.networks.encoders import State
from resel.networks.heads import Activation
from resel.networks.inputs import ContextInputs, Dimensions
from resel.networks.sequence import Embedding, SequenceNetwork, SequenceTrunk

Normalized = Literal["none", "difference", "all"]


@dataclass(frozen=True)
class TokenNetwork(SequenceNetwork):
    """Sizes of policy and critic."""

    reads_last_observation: ClassVar[bool] = True

    observation_embedding: Count = scaled(48)
    """Outputs of the layer that embeds o_{t-1} for the context encoder."""
    difference_embedding: Count = scaled(48)
    """Outputs of the layer that embeds o_t - o_{t-1}."""
    batch_norm: Normalized = "difference"
    """Inputs of the context encoder that go through batch normalisation: none, the difference, or
    all."""
    policy_shortcut: Count = scaled(8)
    """Outputs of the layer that embeds o_t for the policy's head; 0 hands over o_t itself."""
    activation: Activation = "relu"
    """What follows shortcuts and hidden layers: relu or leaky_relu."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "difference_embedding")
        one_of(self, "batch_norm", Normalized)

    @property
    def embedding_activation(self) -> Activation | None:
        return None

    def kinds(self, dims: Dimensions) -> list[tuple[int, int]]:
        return [*super().kinds(dims), (dims.observation, self.difference_embedding)]

    def trunk(self, config: Config, dims: Dimensions) -> SequenceTrunk:
        return TokenTrunk(dims, config)


class TokenTrunk(SequenceTrunk):
    """Tokens, and the context encoder. Its state begins with whether the trajectory has begun."""

    def __init__(self, dims: Dimensions, config: Config) -> None:
        super().__init__(dims, config)
        sizes: TokenNetwork = config.network
        self._sizes = [inputs for inputs, _ in sizes.kinds(dims)]
        kinds = len(self._sizes)
        self._unscaled = {"none": kinds, "difference": kinds - 1, "all": 0}[sizes.batch_norm]
        scaled = sum(self._sizes[self._unscaled :])
        self.norm = BatchNorm(scaled) if scaled else None
        for embedding in self.embeddings:
            assert isinstance(embedding, Embedding)
            if embedding.linear is not None:
                self.context_encoder.rnn.initialise_embedding(embedding.linear)

    def _token(
        self, inputs: ContextInputs, is_first: Tensor, scaled: Callable[[BatchNorm, Tensor], Tensor]
    ) -> Tensor:
        last = torch.where(is_first[..., None], inputs.observation, inputs.last_observation)
        parts = [last, inputs.last_action]
        parts += [inputs.last_reward] if self._reads_reward else []
        parts.append(inputs.observation - last)
        if self.norm is not None:  # one for all kinds: each number has its own scale anyway
            normalized = scaled(self.norm, torch.cat(parts[self._unscaled :], -1))
            parts[self._unscaled :] = torch.split(normalized, self._sizes[self._unscaled :], -1)
        return self._joined(parts)

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> Tensor:
        begins = is_first.clone()
        begins[:, 0] = True
        token = self._token(inputs, begins, lambda norm, x: norm(x, is_first))
        return self.context_encoder(token, is_first)  # type: ignore[no-any-return]

    def step(self, inputs: ContextInputs, state: State) -> tuple[Tensor, State]:
        begun, *inner = state
        token = self._token(inputs, begun[:, 0] == 0, BatchNorm.step)
        context, after = self.context_encoder.step(token, tuple(inner))
        return context, (torch.ones_like(begun), *after)

    def initial_state(self, rows: int) -> State:
        weight = next(self.parameters())
        return (weight.new_zeros(rows, 1), *super().initial_state(rows))
