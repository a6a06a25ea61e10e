"""The encoder of GPIDE: moving averages over several spans and a sum, as of a PID controller.

Char and Schneider 2023, PID-Inspired Inductive Biases for Deep Reinforcement Learning, section 4.2.
Each head maps its input to v_t and sums up what has been seen, over i <= t:

    smoothing:  y_t = sum of a (1 - a)^(t-i) v_i, divided by its weights' sum 1 - (1 - a)^(t+1)
    sum:        y_t = sum of v_i

All heads side by side go through batch normalisation, a linear layer and tanh.

Glossary
    H heads, S outputs of each, T steps
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from resel.config import Count, at_least, scaled
from resel.networks.batch_norm import BatchNorm
from resel.networks.encoders.base import Encoder, Longest, State
from resel.networks.encoders.registry import EncoderSpec
from resel.networks.ops.recurrent import by_trajectory

_ALPHAS = (0.1, 0.25, 0.5, 0.9, 1.0)
"""Of the smoothing heads."""
_SUMS = 1
_STD = 0.02


@dataclass(frozen=True)
class SmoothingSettings:
    """How far it sees, and how wide its heads are."""

    window: Count | None = None
    """Newest steps that it sees; None for the whole trajectory."""
    smoothing_width: Count = scaled(32)
    """Outputs of each of the six heads."""

    def __post_init__(self) -> None:
        at_least(self, 1, "window", "smoothing_width")

    @property
    def longest(self) -> Longest | None:
        """The longest trajectory that it can read at once; None for any."""
        return None if self.window is None else Longest(self.window, "window", slides=True)


class SmoothingEncoder(Encoder):
    """Exponential smoothing and sums."""

    def __init__(self, inputs: int, width: int, settings: SmoothingSettings) -> None:
        super().__init__()
        heads = len(_ALPHAS) + _SUMS
        self.window, self._longest = settings.window, settings.longest
        self._shape = (heads, settings.smoothing_width)
        self.maps = nn.Linear(inputs, heads * settings.smoothing_width, bias=False)
        self.norm = BatchNorm(heads * settings.smoothing_width)
        self.out = nn.Linear(heads * settings.smoothing_width, width)
        nn.init.normal_(self.maps.weight, std=_STD / 2**0.5)
        self.initialise_embedding(self.out)

    def forward(self, x: Tensor, is_first: Tensor) -> Tensor:
        mixed = by_trajectory(self.maps(x), is_first, self._mixed)
        return torch.tanh(self.out(self.norm(mixed, is_first)))

    def _mixed(self, values: Tensor) -> Tensor:
        """(trajectories, T, H S) -> the same."""
        steps = values.shape[1]
        if self._longest is not None:
            self._longest.check(steps)
        t = torch.arange(steps, device=values.device)
        age = t[:, None] - t  # (T, T)
        weights = _weights(age.clamp(min=0), t[:, None] + 1, values).tril()  # (H, T, T)
        heads = values.view(*values.shape[:2], *self._shape)  # (trajectories, T, H, S)
        return torch.einsum("hti,nihs->nths", weights, heads).flatten(2)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        values, seen = self.maps(x), state[1] + 1  # (rows, H S), (rows, 1)
        if self.window is None:
            keep, gain, _ = (of_heads[:, None] for of_heads in _heads(values))
            after = keep * state[0] + gain * values.view(-1, *self._shape)  # (rows, H, S)
            newest = _weights(torch.zeros_like(seen), seen, values).transpose(0, 1)  # (rows, H, 1)
            mixed = after * newest / gain
        else:
            seen = seen.clamp(max=self.window)
            after = torch.cat([state[0][:, 1:], values[:, None]], 1)  # (rows, window, H S)
            age = torch.arange(self.window - 1, -1, -1, device=x.device)
            weights = _weights(age.expand(x.shape[0], -1), seen, values)  # (H, rows, window)
            mixed = torch.einsum(
                "hnw,nwhs->nhs", weights, after.view(*after.shape[:2], *self._shape)
            )
        return torch.tanh(self.out(self.norm.step(mixed.flatten(1)))), (after, seen)

    def initial_state(self, rows: int) -> State:
        new = self.out.weight.new_zeros
        heads, size = self._shape
        if self.window is None:
            return new(rows, heads, size), new(rows, 1)
        return new(rows, self.window, heads * size), new(rows, 1)

    def initialise_embedding(self, layer: nn.Linear) -> None:
        nn.init.normal_(layer.weight, std=_STD)
        nn.init.zeros_(layer.bias)


def _heads(like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of each head (H,): what is kept of a value from step to step, with which weight it enters,
    and whether all weights are made to add up to 1."""
    smoothing = [(1 - alpha, alpha, 1.0) for alpha in _ALPHAS]
    keep, gain, divided = like.new_tensor([*smoothing, *[(1.0, 1.0, 0.0)] * _SUMS]).T
    return keep, gain, divided > 0


def _weights(age: Tensor, seen: Tensor, like: Tensor) -> Tensor:
    """(H, ...): of a value so many steps old, where so many were seen."""
    keep, gain, divided = (x.view(-1, *[1] * age.dim()) for x in _heads(like))
    return gain * keep**age / torch.where(divided, 1 - keep**seen, torch.ones_like(gain))


SMOOTHING = EncoderSpec(
    "smoothing",
    "GPIDE's moving averages over several spans, and a sum",
    SmoothingSettings,
    lambda settings, width: SmoothingEncoder(width, width, settings),
    reach=lambda settings: settings.window,
    longest=lambda settings: settings.longest,
    carries_on=False,
    batch_statistics=True,
    hidden_units=False,
    build_from=lambda settings, inputs, width: SmoothingEncoder(inputs, width, settings),
)
