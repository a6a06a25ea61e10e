"""A causal Transformer with sine positions.

Vaswani et al. 2017, Attention Is All You Need, with the norms in front (pre-norm) and none at the
end; the output goes through tanh. First weights are those of T-Fixup (Huang et al. 2020), which
needs no warm-up of the rate.

It has two forms. With a `window`, acting sees the newest steps only: all of them are computed anew
at each step, and positions begin with the window. Without, it sees whole trajectories; keys and
values are kept, for which the longest episode has to be known.

Glossary
    W width, T steps, L layers
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from resel.config import Count, at_least
from resel.errors import ConfigError
from resel.networks.dropout import Dropout
from resel.networks.encoders.base import Encoder, Longest, State
from resel.networks.encoders.registry import EncoderSpec
from resel.networks.ops.recurrent import by_trajectory

_LONGEST_WAVE = 10_000.0


@dataclass(frozen=True)
class TransformerSettings:
    """Its blocks, and how far it sees."""

    n_layers: Count = 4
    """Blocks on top of each other."""
    n_heads: Count = 8
    """Heads of attention, which share the width."""
    expansion: Count = 4
    """Hidden units of the feed-forward part per unit of width."""
    window: Count | None = None
    """Newest steps that it sees while acting, and the most it can learn from at once; None for
    whole trajectories."""
    longest_episode: Count = 1000
    """Without a window: steps of the longest episode; keys and values of all are kept."""

    def __post_init__(self) -> None:
        at_least(self, 1, "n_layers", "n_heads", "expansion", "window", "longest_episode")

    @property
    def longest(self) -> Longest:
        """The longest trajectory that it can read at once."""
        if self.window is not None:
            return Longest(self.window, "window", slides=True)
        return Longest(self.longest_episode + 1, "longest_episode", slides=False)


class Block(nn.Module):
    """Attention to the past, then a feed-forward part, each added to its input."""

    def __init__(
        self,
        width: int,
        n_heads: int,
        expansion: int,
        scale: float,
        activation: Callable[[Tensor], Tensor] = F.relu,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self._heads, self._activation = n_heads, activation
        self.attention_dropout, self.dropout = Dropout(dropout), Dropout(dropout)
        self.before_attention, self.before_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.attended = nn.Linear(width, width)
        self.up, self.down = (
            nn.Linear(width, expansion * width),
            nn.Linear(expansion * width, width),
        )
        with torch.no_grad():
            for layer in (self.query_key_value, self.attended, self.up, self.down):
                nn.init.xavier_uniform_(layer.weight)
                layer.weight *= scale

    def _by_head(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self._heads, -1).transpose(1, 2)  # (rows, heads, T, W / heads)

    def _after(self, x: Tensor, attention: Tensor) -> Tensor:
        x = x + self.dropout(self.attended(attention.transpose(1, 2).flatten(2)))
        hidden = self._activation(self.up(self.before_feed_forward(x)))
        return x + self.dropout(self.down(hidden))  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        """Over trajectories (rows, T, W)."""
        parts = self.query_key_value(self.before_attention(x)).chunk(3, -1)
        query, key, value = (self._by_head(part) for part in parts)
        if not self.attention_dropout.active:
            return self._after(x, F.scaled_dot_product_attention(query, key, value, is_causal=True))
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])  # (rows, heads, T, T)
        shares = torch.softmax(scores.masked_fill(later, -math.inf), -1)
        return self._after(x, self.attention_dropout(shares) @ value)

    def step(
        self, x: Tensor, keys: Tensor, values: Tensor, at: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """At one moment (rows, 1, W), each row at its own place `at` (rows, 1) of what is kept."""
        query, key, value = self.query_key_value(self.before_attention(x)).chunk(3, -1)
        places = torch.arange(keys.shape[1], device=x.device)
        here = (places == at)[..., None]  # (rows, T, 1)
        keys, values = torch.where(here, key, keys), torch.where(here, value, values)
        seen = (places <= at)[:, None, None]  # (rows, 1, 1, T)
        attention = F.scaled_dot_product_attention(
            self._by_head(query), self._by_head(keys), self._by_head(values), seen
        )
        return self._after(x, attention), keys, values


class TransformerEncoder(Encoder):
    """Positions, blocks, tanh."""

    def __init__(self, inputs: int, width: int, settings: TransformerSettings) -> None:
        super().__init__()
        layers = settings.n_layers
        if width % settings.n_heads:
            raise ConfigError(
                f"n_heads={settings.n_heads} does not divide width={width}: choose another of them."
            )
        self._width, self._settings = width, settings
        self.inward: nn.Module = nn.Identity() if inputs == width else nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(self._block(width, settings) for _ in range(layers))

    def _block(self, width: int, settings: TransformerSettings) -> Block:
        scale = 0.67 * settings.n_layers**-0.25
        return Block(width, settings.n_heads, settings.expansion, scale)

    def initialise_embedding(self, layer: nn.Linear) -> None:
        scale = (9 * len(self.blocks)) ** -0.25
        nn.init.normal_(layer.weight, std=scale * layer.out_features**-0.5)

    def _positions(self, places: Tensor) -> Tensor:
        """(...,) -> (..., W): sine and cosine of ever longer waves in turn."""
        even = torch.arange(0, self._width, 2, device=places.device, dtype=places.dtype)
        angle = places[..., None] * torch.exp(even * (-math.log(_LONGEST_WAVE) / self._width))
        return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)[..., : self._width]

    def forward(self, x: Tensor, is_first: Tensor) -> Tensor:
        return by_trajectory(self.inward(x), is_first, self._read)

    def _read(self, x: Tensor) -> Tensor:
        """(trajectories, T, W) -> the same."""
        self._settings.longest.check(x.shape[1])
        x = x + self._positions(torch.arange(x.shape[1], device=x.device, dtype=x.dtype))
        x = self._begin(x)
        for block in self.blocks:
            x = block(x)
        return self._finish(x)

    def _begin(self, x: Tensor) -> Tensor:
        """What the first block reads of steps with their positions."""
        return x

    def _finish(self, x: Tensor) -> Tensor:
        """What becomes of the last block's output."""
        return torch.tanh(x)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        step = self._step_of_window if self._settings.window else self._step_of_episode
        return step(self.inward(x), state)

    def _step_of_window(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        tokens, seen = state  # (rows, window, W) oldest first, (rows, 1)
        at = seen.clamp(max=tokens.shape[1] - 1)
        full = (seen >= tokens.shape[1])[..., None]
        tokens = torch.where(full, tokens.roll(-1, 1), tokens)
        here = torch.arange(tokens.shape[1], device=x.device) == at
        tokens = torch.where(here[..., None], x[:, None], tokens)
        y = self._read(tokens[:, : _until(at, tokens)])
        newest = y.gather(1, at.long()[..., None].expand(-1, -1, y.shape[-1]))  # (rows, 1, W)
        return newest[:, 0], (tokens, at + 1)

    def _step_of_episode(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        *kept, at = state  # keys and values of each layer (rows, T, W), (rows, 1)
        until = _until(at, kept[0])
        self._settings.longest.check(until)
        x = (x + self._positions(at[:, 0]))[:, None]  # (rows, 1, W)
        after: list[Tensor] = []
        for i, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            keys, values = kept[2 * i : 2 * i + 2]
            x, *new = block.step(x, keys[:, :until], values[:, :until], at)
            rest = keys[:, until:], values[:, until:]
            after += [torch.cat(both, 1) for both in zip(new, rest, strict=True)]
        return self._finish(x[:, 0]), (*after, at + 1)

    def initial_state(self, rows: int) -> State:
        block = self.blocks[0]
        assert isinstance(block, Block)
        new = block.up.weight.new_zeros
        shape = (rows, self._settings.longest.observations, self._width)
        count = 1 if self._settings.window else 2 * len(self.blocks)
        return (*(new(shape) for _ in range(count)), new(rows, 1))


def _until(at: Tensor, kept: Tensor) -> int:
    """How much of what is kept has to be looked at; all of it in a graph, which fits any moment."""
    if torch.compiler.is_compiling():
        return kept.shape[1]
    return int(at.max()) + 1


TRANSFORMER = EncoderSpec(
    "transformer",
    "causal attention to the newest steps or to the whole episode",
    TransformerSettings,
    lambda settings, width: TransformerEncoder(width, width, settings),
    reach=lambda settings: settings.window,
    longest=lambda settings: settings.longest,
    carries_on=False,
    hidden_units=False,
    build_from=lambda settings, inputs, width: TransformerEncoder(inputs, width, settings),
)
