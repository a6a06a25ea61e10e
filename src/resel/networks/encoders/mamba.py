"""The Mamba block of the paper: selective state space layer and feed-forward part.

Glossary
    W width, D = expansion x W channels, S states per channel, R rank of the step size, K taps
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from resel.networks.activation import dense_softplus
from resel.networks.conv import causal_conv_silu
from resel.networks.encoders.base import Encoder, State
from resel.networks.norm import rms_norm
from resel.networks.scan import selective_scan

_EPS = 1e-8
_DELTA_RANGE = (1e-3, 0.1)
_DELTA_FLOOR = 1e-4


class MambaMixer(nn.Module):
    """Projection, short convolution, selective scan and gate."""

    def __init__(self, width: int, expansion: int, state_size: int, conv_kernel: int) -> None:
        super().__init__()
        channels = expansion * width
        self.channels, self.state_size, self.taps = channels, state_size, conv_kernel
        self.rank = math.ceil(width / 16)
        self.in_proj = nn.Linear(width, 2 * channels, bias=False)
        if conv_kernel:
            bound = conv_kernel**-0.5
            self.conv_weight = nn.Parameter(
                torch.empty(channels, conv_kernel).uniform_(-bound, bound)
            )
            self.conv_bias = nn.Parameter(torch.empty(channels).uniform_(-bound, bound))
        self.x_proj = nn.Linear(channels, self.rank + 2 * state_size, bias=False)
        self.dt_proj = nn.Linear(self.rank, channels)
        self.A_log = nn.Parameter(
            torch.log(torch.arange(1.0, state_size + 1)).expand(channels, -1).clone()
        )
        self.D = nn.Parameter(torch.ones(channels))
        self.out_proj = nn.Linear(channels, width, bias=False)
        self._initialise_delta()

    def _initialise_delta(self) -> None:
        """softplus(bias) is log-uniform in the range that Mamba uses."""
        nn.init.uniform_(self.dt_proj.weight, -(self.rank**-0.5), self.rank**-0.5)
        low, high = (math.log(value) for value in _DELTA_RANGE)
        delta = torch.exp(torch.rand(self.channels) * (high - low) + low).clamp(min=_DELTA_FLOOR)
        with torch.no_grad():
            self.dt_proj.bias.copy_(delta + torch.log(-torch.expm1(-delta)))  # softplus inverse

    def _selection(self, u: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """delta (..., D), A (D, S), B and C (..., S), which depend on the input."""
        rank, B, C = self.x_proj(u).split([self.rank, self.state_size, self.state_size], -1)
        delta = dense_softplus(rank, self.dt_proj.weight, self.dt_proj.bias)
        return delta, -torch.exp(self.A_log), B, C

    def _filtered(self, u: Tensor, start: Tensor) -> Tensor:
        if not self.taps:
            return F.silu(u)
        return causal_conv_silu(u, self.conv_weight, self.conv_bias, start)

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        u, z = self.in_proj(x).chunk(2, -1)  # (rows, length, D) each
        u = self._filtered(u, start)
        delta, A, B, C = self._selection(u)
        y = selective_scan(u, delta, A, B, C, self.D, z, start)
        assert isinstance(y, Tensor)
        return self.out_proj(y)  # type: ignore[no-any-return]

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        both = self.in_proj(x)  # (rows, 2D)
        if _acts_on_cpu(x):
            y, state = self._fused_step(both, state)
            return self.out_proj(y), state
        past, h = state  # (rows, K - 1, D), (rows, D, S)
        u, z = both.chunk(2, -1)  # (rows, D) each
        if self.taps:
            window = torch.cat([past, u[:, None]], 1)  # (rows, K, D), newest last
            u = self.conv_bias + (window * self.conv_weight.flip(1).t()).sum(1)
            past = window[:, 1:]
        u = F.silu(u)
        delta, A, B, C = self._selection(u)
        h = torch.exp(delta[..., None] * A) * h + (delta * u)[..., None] * B[:, None]
        y = ((h * C[:, None]).sum(-1) + self.D * u) * F.silu(z)
        return self.out_proj(y), (past, h)

    def _fused_step(self, both: Tensor, state: State) -> tuple[Tensor, State]:
        from resel.networks._mamba_step import mixer_step  # Numba is slow to import

        past, h = (part.contiguous() for part in state)
        new_past, new_h = torch.empty_like(past), torch.empty_like(h)
        y = both.new_empty(len(both), self.channels)
        weights = (
            self.conv_weight if self.taps else both.new_empty(self.channels, 0),
            self.conv_bias if self.taps else both.new_empty(0),
            self.x_proj.weight,
            self.dt_proj.weight,
            self.dt_proj.bias,
            self.A_log.view(-1),
            self.D,
        )
        tensors = (both, *weights, past, h.view(-1), new_past, new_h.view(-1), y)
        mixer_step(*[tensor.detach().numpy() for tensor in tensors])
        return y, (new_past, new_h)

    def initial_state(self, rows: int) -> State:
        return (
            self.D.new_zeros(rows, max(0, self.taps - 1), self.channels),
            self.D.new_zeros(rows, self.channels, self.state_size),
        )


class FeedForward(nn.Module):
    """Position-wise feed-forward part with the norm after the residual, as in the Transformer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, width)
        self.down = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width, eps=_EPS)
        nn.init.zeros_(self.up.bias)
        nn.init.zeros_(self.down.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x + self.down(F.gelu(self.up(x))))  # type: ignore[no-any-return]

    def step(self, x: Tensor) -> Tensor:
        """`forward` for x (rows, width)."""
        if not _acts_on_cpu(x):
            return self.forward(x)
        from resel.networks._mamba_step import gelu

        hidden = self.up(x)
        gelu(hidden.numpy())
        return self.norm(x + self.down(hidden))  # type: ignore[no-any-return]


def _acts_on_cpu(x: Tensor) -> bool:
    """Whether the kernels for single moments, which form no gradients, can be used."""
    return x.device.type == "cpu" and not torch.is_grad_enabled()


def _normed(norm: nn.Module, x: Tensor) -> Tensor:
    assert isinstance(norm, nn.RMSNorm)
    return rms_norm(x, norm.weight, _EPS)


class MambaEncoder(Encoder):
    """One or more blocks: norm, mixer, residual and, if asked for, the feed-forward part."""

    def __init__(
        self,
        width: int,
        blocks: int,
        *,
        expansion: int,
        state_size: int,
        conv_kernel: int,
        feed_forward: bool,
    ) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(width, eps=_EPS) for _ in range(blocks))
        self.mixers = nn.ModuleList(
            MambaMixer(width, expansion, state_size, conv_kernel) for _ in range(blocks)
        )
        self.feed_forwards = nn.ModuleList(
            FeedForward(width) if feed_forward else nn.Identity() for _ in range(blocks)
        )
        for mixer in self.mixers:
            mixer.out_proj.weight.data /= blocks**0.5  # type: ignore[union-attr]

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        for norm, mixer, feed_forward in zip(
            self.norms, self.mixers, self.feed_forwards, strict=True
        ):
            x = feed_forward(x + mixer(_normed(norm, x), start))
        return x

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        new: list[Tensor] = []
        for i, (norm, mixer, feed_forward) in enumerate(
            zip(self.norms, self.mixers, self.feed_forwards, strict=True)
        ):
            assert isinstance(mixer, MambaMixer)
            y, part = mixer.step(_normed(norm, x), state[2 * i : 2 * i + 2])
            x = x + y
            if isinstance(feed_forward, FeedForward):
                x = feed_forward.step(x)
            new.extend(part)
        return x, tuple(new)

    def initial_state(self, rows: int) -> State:
        return tuple(
            part
            for mixer in self.mixers
            if isinstance(mixer, MambaMixer)
            for part in mixer.initial_state(rows)
        )
