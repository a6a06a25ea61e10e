"""The Mamba block of the paper: selective state space layer and feed-forward part.

Glossary
    W width, D = expansion x W channels, S states per channel, R rank of the step size, K taps
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from resel.config import Count, at_least, scaled
from resel.networks.encoders.base import Encoder, State
from resel.networks.encoders.registry import EncoderSpec
from resel.networks.ops.activation import dense_softplus
from resel.networks.ops.conv import causal_conv_silu
from resel.networks.ops.feed_forward import feed_forward
from resel.networks.ops.mamba_block import BlockWeights, mamba_block
from resel.networks.ops.norm import rms_norm
from resel.networks.ops.scan import selective_scan

_EPS = 1e-8
_DELTA_RANGE = (1e-3, 0.1)
_DELTA_FLOOR = 1e-4


@dataclass(frozen=True)
class MambaSettings:
    """The paper's block."""

    n_layers: Count = 1
    """Blocks on top of each other."""
    state_size: Count = scaled(64)
    """States per channel."""
    conv_kernel: Count = 8
    """Taps of the causal convolution; 0 leaves it out."""
    expansion: Count = 2
    """Channels of the scan per unit of width."""
    feed_forward: bool = True
    """Position-wise feed-forward part after the last block; without it a norm and a linear map."""

    def __post_init__(self) -> None:
        at_least(self, 1, "n_layers", "state_size", "expansion")
        at_least(self, 0, "conv_kernel")


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

    def _filtered(self, u: Tensor, is_first: Tensor) -> Tensor:
        if not self.taps:  # the released code has no SiLU either, then
            return u
        return causal_conv_silu(u, self.conv_weight, self.conv_bias, is_first)

    def forward(self, x: Tensor, is_first: Tensor) -> Tensor:
        u, z = self.in_proj(x).chunk(2, -1)  # (rows, length, D) each
        u = self._filtered(u, is_first)
        delta, A, B, C = self._selection(u)
        y = selective_scan(u, delta, A, B, C, self.D, z, is_first)
        assert isinstance(y, Tensor)
        return self.out_proj(y)  # type: ignore[no-any-return]

    def block_weights(self, norm: Tensor) -> BlockWeights:
        """All parameters of the block behind a norm, for its operation in one piece."""
        return BlockWeights(
            norm,
            self.in_proj.weight,
            self.conv_weight,
            self.conv_bias,
            self.x_proj.weight,
            self.dt_proj.weight,
            self.dt_proj.bias,
            self.A_log,
            self.D,
            self.out_proj.weight,
        )

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        past, h = state  # (rows, K - 1, D), (rows, D, S)
        u, z = self.in_proj(x).chunk(2, -1)  # (rows, D) each
        if self.taps:
            window = torch.cat([past, u[:, None]], 1)  # (rows, K, D), newest last
            u = self.conv_bias + (window * self.conv_weight.flip(1).t()).sum(1)
            u, past = F.silu(u), window[:, 1:]
        delta, A, B, C = self._selection(u)
        h = torch.exp(delta[..., None] * A) * h + (delta * u)[..., None] * B[:, None]
        y = ((h * C[:, None]).sum(-1) + self.D * u) * F.silu(z)
        return self.out_proj(y), (past, h)

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
        up, down, norm = self.up, self.down, self.norm
        layers = ((up.weight, up.bias), (down.weight, down.bias), (norm.weight, norm.bias))
        return feed_forward(x, *layers, _EPS)


class Readout(nn.Sequential):
    """What stands in the place of the feed-forward part where there is none."""

    def __init__(self, width: int) -> None:
        super().__init__(nn.RMSNorm(width, eps=_EPS), nn.Linear(width, width, bias=False))


class BlockAtOneMoment:
    """A block's step on a CPU in one kernel, which forms no gradients.

    Finding the weights and making arrays of them would take as long as the arithmetic, so the
    arrays are kept for as long as the weights stay where they are in memory.
    """

    def __init__(self, norm: nn.Module, mixer: nn.Module, feed_forward: nn.Module | None) -> None:
        assert isinstance(norm, nn.RMSNorm)
        assert isinstance(mixer, MambaMixer)
        none = torch.empty(0)
        self._weights: list[Tensor] = [
            norm.weight,
            mixer.in_proj.weight,
            mixer.conv_weight if mixer.taps else none.view(mixer.channels, 0),
            mixer.conv_bias if mixer.taps else none,
            mixer.x_proj.weight,
            mixer.dt_proj.weight,
            mixer.dt_proj.bias,
            mixer.A_log,
            mixer.D,
            mixer.out_proj.weight,
        ]
        if isinstance(feed_forward, FeedForward):
            layers = (feed_forward.up, feed_forward.down, feed_forward.norm)
            self._weights += [part for layer in layers for part in (layer.weight, layer.bias)]
        else:
            self._weights += [none] * 6
        self._addresses: list[int] = []
        self._arrays: Any = None

    def __call__(self, x: Tensor, past: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """For x (rows, width) and the state: the result, and the state for the next moment."""
        from resel.networks.ops.cpu.mamba_step import (  # Numba is slow to import
            BlockWeights,
            block_step,
        )

        addresses = [weight.data_ptr() for weight in self._weights]
        if addresses != self._addresses:
            self._arrays = BlockWeights.of(
                [weight.detach().to(x.dtype).numpy() for weight in self._weights]
            )
            self._addresses = addresses
        past, h = past.contiguous(), h.contiguous()
        new_past, new_h, out = torch.empty_like(past), torch.empty_like(h), torch.empty_like(x)
        block_step(
            self._arrays,
            _EPS,
            x.contiguous().view(-1).numpy(),
            past.numpy(),
            h.view(-1).numpy(),
            new_past.numpy(),
            new_h.view(-1).numpy(),
            out.view(-1).numpy(),
        )
        return out, new_past, new_h


def _normed(norm: nn.Module, x: Tensor) -> Tensor:
    assert isinstance(norm, nn.RMSNorm)
    return rms_norm(x, norm.weight, _EPS)


class MambaEncoder(Encoder):
    """One or more blocks (norm, mixer, residual), then the feed-forward part or a readout."""

    cpu_kernel: ClassVar[str] = "scan.forward"
    """That of its longest part there, after all others that go forward."""

    def __init__(
        self,
        width: int,
        n_layers: int,
        *,
        expansion: int,
        state_size: int,
        conv_kernel: int,
        feed_forward: bool,
    ) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(width, eps=_EPS) for _ in range(n_layers))
        self.mixers = nn.ModuleList(
            MambaMixer(width, expansion, state_size, conv_kernel) for _ in range(n_layers)
        )
        self.last = FeedForward(width) if feed_forward else Readout(width)
        for mixer in self.mixers:
            mixer.out_proj.weight.data /= n_layers**0.5  # type: ignore[union-attr]
        inside = [None] * (n_layers - 1) + [self.last if feed_forward else None]
        self._at_one_moment = [
            BlockAtOneMoment(*block) for block in zip(self.norms, self.mixers, inside, strict=True)
        ]

    def forward(self, x: Tensor, is_first: Tensor) -> Tensor:
        whole = x.device.type == "cpu" and not torch.compiler.is_compiling()
        for norm, mixer in zip(self.norms, self.mixers, strict=True):
            assert isinstance(mixer, MambaMixer)
            assert isinstance(norm, nn.RMSNorm)
            if whole and mixer.taps:
                x = mamba_block(x, is_first, _EPS, mixer.block_weights(norm.weight))
            else:
                x = x + mixer(_normed(norm, x), is_first)
        return self.last(x)  # type: ignore[no-any-return]

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        new: list[Tensor] = []
        traced = torch.compiler.is_compiling()  # a graph cannot hold the kernel
        if x.device.type == "cpu" and not torch.is_grad_enabled() and not traced:
            for i, block in enumerate(self._at_one_moment):
                x, *both = block(x, *state[2 * i : 2 * i + 2])
                new.extend(both)
            return x if isinstance(self.last, FeedForward) else self.last(x), tuple(new)
        for i, (norm, mixer) in enumerate(zip(self.norms, self.mixers, strict=True)):
            assert isinstance(mixer, MambaMixer)
            y, part = mixer.step(_normed(norm, x), state[2 * i : 2 * i + 2])
            x = x + y
            new.extend(part)
        return self.last(x), tuple(new)

    def initial_state(self, rows: int) -> State:
        return tuple(
            part
            for mixer in self.mixers
            if isinstance(mixer, MambaMixer)
            for part in mixer.initial_state(rows)
        )


def _build(settings: MambaSettings, width: int) -> MambaEncoder:
    return MambaEncoder(
        width,
        settings.n_layers,
        expansion=settings.expansion,
        state_size=settings.state_size,
        conv_kernel=settings.conv_kernel,
        feed_forward=settings.feed_forward,
    )


MAMBA = EncoderSpec("mamba", "selective state space blocks", MambaSettings, _build)
