"""Beliefs about the task: a Gaussian over what is hidden, from all that was seen and done so far.

    o_t, a_{t-1}, (r_{t-1}) --embeddings, context encoder--> mean_t, log variance_t of z
    decoder:  [z, o_t, a_t, o_{t+1}] --> r_t,  or  [z, o_t, a_t] --> o_{t+1}

Encoder and decoder learn together, and from nothing else; policies and critics read the beliefs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from resel.config import Config, Count, at_least, scaled
from resel.networks.base import LrScope, Network
from resel.networks.encoders import State
from resel.networks.heads import Activation, activated_mlp
from resel.networks.inputs import ContextInputs, Dimensions
from resel.networks.sequence import SequenceTrunk, TrunkSizes

Decoded = Literal["reward", "observation"]


@dataclass(frozen=True)
class BeliefSizes(TrunkSizes):
    """Sizes of the encoder of beliefs and of its decoder."""

    observation_embedding: Count = scaled(32)
    """Outputs of the layer that embeds o_t for the context encoder."""
    action_embedding: Count = scaled(16)
    """Outputs of the layer that embeds the last action."""
    reward_embedding: Count = scaled(16)
    """Outputs of the layer that embeds the last reward; 0 leaves the reward out."""
    width: Count = scaled(128)
    """Width of the context encoder."""
    latent_size: Count = 5
    """Numbers of z, what the task is taken to be; a belief has a mean and a variance of each."""
    decoder_width: Count = scaled(64)
    """Width of the decoder's first hidden layer."""
    decoder_last_width: Count = scaled(32)
    """Width of its second and last one."""

    joint_embedding: ClassVar[bool] = False
    context_size: ClassVar[int] = 0
    embedding_activation: ClassVar[Activation] = "relu"

    def __post_init__(self) -> None:
        at_least(self, 1, "observation_embedding", "action_embedding", "width", "latent_size")
        at_least(self, 1, "decoder_width", "decoder_last_width")
        at_least(self, 0, "reward_embedding")

    @property
    def belief_size(self) -> int:
        """Numbers of a belief."""
        return 2 * self.latent_size


class BeliefVAE(Network):
    """q(z | history) and a decoder of what a task with this z would give."""

    def __init__(self, dims: Dimensions, config: Config, decodes: Decoded) -> None:
        super().__init__()
        sizes: BeliefSizes = config.network
        self.decodes = decodes
        self.trunk = SequenceTrunk(dims, config)
        self.belief = nn.Linear(sizes.width, sizes.belief_size)
        observations = 2 if decodes == "reward" else 1
        self.decoder = activated_mlp(
            sizes.latent_size + observations * dims.observation + dims.action,
            [sizes.decoder_width, sizes.decoder_last_width],
            1 if decodes == "reward" else dims.observation,
            "relu",
            "torch",
            1.0,
        )

    def forward(self, inputs: ContextInputs, is_first: Tensor) -> Tensor:
        """Mean and log variance of z at every step. (rows, length, 2 latent)"""
        return self.belief(self.trunk(inputs, is_first))  # type: ignore[no-any-return]

    def forward_from(self, inputs: ContextInputs, is_first: Tensor, state: State) -> Tensor:
        """The same over rows that go on with an episode from a state; none stands for zeros."""
        return self.belief(self.trunk.forward_from(inputs, is_first, state))  # type: ignore[no-any-return]

    def step(self, inputs: ContextInputs, state: State) -> tuple[Tensor, State]:
        """The belief at one moment, (rows, 2 latent), and the state for the next."""
        context, state = self.trunk.step(inputs, state)
        return self.belief(context), state

    def initial_state(self, rows: int) -> State:
        """The state at the start of `rows` trajectories."""
        return self.trunk.initial_state(rows)

    def decode(self, z: Tensor, observation: Tensor, action: Tensor, after: Tensor) -> Tensor:
        """What every z (rows, K, latent) takes the reward or o_{t+1} of every step to be.

        The steps are (rows, M, ...), the answers (rows, K, M, size).
        """
        step = [observation, action, after] if self.decodes == "reward" else [observation, action]
        steps = torch.cat(step, -1)[:, None].expand(-1, z.shape[1], -1, -1)
        each = z[:, :, None].expand(-1, -1, steps.shape[2], -1)
        return self.decoder(torch.cat([each, steps], -1))  # type: ignore[no-any-return]

    def context_parameters(self, scope: LrScope) -> Iterable[Tensor]:
        """All of the encoder, without the decoder; or its recurrent layers alone."""
        if scope == "rnn":
            yield from self.trunk.parameters_of(scope)
        else:
            yield from self.trunk.parameters()
            yield from self.belief.parameters()
