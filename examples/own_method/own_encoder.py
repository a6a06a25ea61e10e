"""An encoder of one's own: moving averages of what was seen, each over another span of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from resel import Encoder, EncoderSpec
from resel.config import positive
from resel.networks import State


@dataclass(frozen=True)
class AveragesSettings:
    """How far the averages look back."""

    longest_span: float = 100.0
    """Steps over which the slowest average is taken; the fastest is over one."""

    def __post_init__(self) -> None:
        positive(self, "longest_span")


class Averages(Encoder):
    """h_t = k h_{t-1} + (1 - k) W x_t, with a share k to keep for each unit; y_t = V h_t."""

    def __init__(self, width: int, longest_span: float) -> None:
        super().__init__()
        self.inward, self.outward = nn.Linear(width, width), nn.Linear(width, width)
        spans = torch.logspace(0, 1, width, base=longest_span)
        self.keep = nn.Parameter(torch.logit(1 - 1 / (1 + spans)))

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        keep = torch.sigmoid(self.keep)
        h = keep * state[0] + (1 - keep) * self.inward(x)  # (rows, width)
        return self.outward(h), (h,)

    def forward(self, x: Tensor, is_first: Tensor) -> Tensor:
        state, outputs = self.initial_state(len(x)), []
        for t in range(x.shape[1]):
            state = tuple(part.masked_fill(is_first[:, t, None], 0) for part in state)
            y, state = self.step(x[:, t], state)
            outputs.append(y)
        return torch.stack(outputs, 1)  # (rows, length, width)

    def initial_state(self, rows: int) -> State:
        return (self.keep.new_zeros(rows, len(self.keep)),)

    def suitable_rows(self, lengths: Sequence[int]) -> int:
        return len(lengths)  # side by side: the loop is then as long as one trajectory


ENCODER = EncoderSpec(
    name="own-averages",
    summary="moving averages over spans of one step to many",
    settings=AveragesSettings,
    build=lambda settings, width: Averages(width, settings.longest_span),
)
