"""Policy and critic of Char and Schneider 2023: the context encoder reads transitions as tokens.

    (o_{t-1}, a_{t-1}, r_{t-1}, o_t - o_{t-1}) --a linear layer for each--> context encoder

At a trajectory's first step o_{t-1} is o_t, so that the difference is zero, as are action and
reward. Some or all kinds go through batch normalisation first. All else is as in `sequence`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

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

    observation_embedding: Count = scaled(48)
    """Outputs of the layer that embeds o_{t-1} for the context encoder."""
    difference_embedding: Count = scaled(48)
    """Outputs of the layer that embeds o_t - o_{t-1}."""
    batch_norm: Normalized = "difference"
    """Inputs of the context encoder that go through batch normalisation: none, the difference, or
    all."""
    policy_shortcut: Count = scaled(8)
    """Outputs of the layer that embeds o_t for the policy's head; 0 hands over o_t itself."""

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
        sources = [inputs for inputs, _ in sizes.kinds(dims)]
        skipped = {"none": len(sources), "difference": len(sources) - 1, "all": 0}[sizes.batch_norm]
        self._unscaled = skipped
        self.norms = nn.ModuleList(BatchNorm(inputs) for inputs in sources[skipped:])
        for embedding in self.embeddings:
            assert isinstance(embedding, Embedding)
            if embedding.linear is not None:
                self.context_encoder.rnn.initialise_embedding(embedding.linear)

    def _parts(self, inputs: ContextInputs, is_first: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """The kinds of input: those that are taken as they are, and those to be normalised."""
        last = torch.where(is_first, inputs.observation, inputs.last_observation)
        parts = [last, inputs.last_action]
        parts += [inputs.last_reward] if self._reads_reward else []
        parts.append(inputs.observation - last)
        return parts[: self._unscaled], parts[self._unscaled :]

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> Tensor:
        begins = is_first.clone()
        begins[:, 0] = True
        plain, normalized = self._parts(inputs, begins[..., None])
        pairs = zip(self.norms, normalized, strict=True)
        token = self._joined([*plain, *(norm(part, is_first) for norm, part in pairs)])
        return self.context_encoder(token, is_first)  # type: ignore[no-any-return]

    def step(self, inputs: ContextInputs, state: State) -> tuple[Tensor, State]:
        begun, *inner = state
        plain, normalized = self._parts(inputs, begun == 0)
        for norm, part in zip(self.norms, normalized, strict=True):
            assert isinstance(norm, BatchNorm)
            plain.append(norm.step(part))
        context, after = self.context_encoder.step(self._joined(plain), tuple(inner))
        return context, (torch.ones_like(begun), *after)

    def initial_state(self, rows: int) -> State:
        weight = next(self.parameters())
        return (weight.new_zeros(rows, 1), *super().initial_state(rows))
