"""The one contract of all recurrent blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from resel.errors import ConfigError

State = tuple[Tensor, ...]
"""What a block carries from one moment to the next; each tensor begins with the row dimension,
and all zeros is the state at the start of a trajectory."""


class Encoder(nn.Module, ABC):
    """Maps (rows, length, width) to the same shape, remembering within a trajectory only.

    One made by `EncoderSpec.build_from` reads (rows, length, inputs) instead.
    """

    @abstractmethod
    def forward(self, x: Tensor, is_first: Tensor) -> Tensor:
        """Outputs over packed sequences; `is_first` (rows, length) marks where trajectories begin.

        The first step of a row is a start whether it is marked or not.
        """

    @abstractmethod
    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """One moment: x (rows, width); a loop of `step` from zero state equals `forward`."""

    @abstractmethod
    def initial_state(self, rows: int) -> State:
        """Zeros of the right shapes."""

    def forward_from(self, x: Tensor, is_first: Tensor, state: State) -> Tensor:
        """As `forward`, over rows that go on with an episode from this state.

        It goes step by step. No state stands for zeros.
        """
        if not state:
            found: Tensor = self(x, is_first)
            return found
        outputs = []
        for t in range(x.shape[1]):
            starts = is_first[:, t]
            state = tuple(
                part.masked_fill(starts.view(-1, *[1] * (part.dim() - 1)), 0) for part in state
            )
            y, state = self.step(x[:, t], state)
            outputs.append(y)
        return torch.stack(outputs, 1)

    def initialise_embedding(self, layer: nn.Linear) -> None:
        """First weights of a layer in front of it, where its own ask for some; else torch's."""

    def suitable_rows(self, lengths: Sequence[int]) -> int:
        """Rows a batch of trajectories should be laid out in: one without padding on a CPU,
        about equally full rows on devices that need more to do at a time."""
        if next(self.parameters()).device.type == "cpu":
            return 1
        return max(1, sum(lengths) // max(lengths))


class Longest(NamedTuple):
    """The longest trajectory that an encoder can read at once."""

    observations: int
    """All of its steps, and the observation behind the last."""
    setting: str
    """What is to be raised if it is too short."""
    slides: bool
    """Whether acting goes on behind it, with the newest steps."""

    def check(self, observations: int) -> None:
        """Refuse a longer one."""
        if observations > self.observations:
            raise ConfigError(
                f"A trajectory has {observations:,} observations or more, and its encoder reads "
                f"{self.observations:,}: train with a larger {self.setting}, or end episodes "
                "earlier (max_episode_steps)."
            )
