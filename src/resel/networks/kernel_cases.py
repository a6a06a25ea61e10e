"""What is compared with its reference on a device: inputs, our way, and torch's own operations.

Ours is what the networks do on the device of the inputs: a kernel on CPUs, perhaps another way on
a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional as F

from resel.networks.encoders.base import Encoder
from resel.networks.encoders.gated import GRUEncoder, LSTMEncoder
from resel.networks.ensemble import EnsembleMLP, plain_heads
from resel.networks.folding import Reading, dense_elu_folded
from resel.networks.ops.activation import dense_elu, dense_softplus
from resel.networks.ops.conv import causal_conv_silu
from resel.networks.ops.feed_forward import elu_linear, feed_forward
from resel.networks.ops.mamba_block import BlockWeights, mamba_block
from resel.networks.ops.norm import rms_norm

ROWS, LENGTH, WIDTH = 2, 37, 24
_EMBEDDING, _SEEN, _ACTION, _CONTEXT = 6, 3, 2, 4
_HEADS, _LAYERS = 3, 2
_EPS = 1e-5
_LAYER = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
Draw = Callable[..., Tensor]


class Case(NamedTuple):
    """Outputs and gradients of both ways have to be the same, for all inputs."""

    inputs: Callable[[Draw], list[Tensor]]
    ours: Callable[..., Tensor]
    plain: Callable[..., Tensor]


def _starts(x: Tensor) -> Tensor:
    """Where trajectories begin: three in every row. (rows, length)"""
    at = torch.arange(x.shape[1], device=x.device)
    return (at % 15 == 0).expand(x.shape[:2]).clone()


def _plain_conv(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    length, trajectory = x.shape[1], _starts(x).cumsum(1)
    y = bias + weight[:, 0] * x
    for j in range(1, weight.shape[1]):
        own = F.pad(trajectory[:, : length - j], (j, 0)) == trajectory
        shifted = F.pad(x[:, : length - j], (0, 0, j, 0))
        y = y + weight[:, j] * shifted * own[..., None]
    return F.silu(y)


def _gated(x: Tensor, encoder: Encoder, *weights: Tensor) -> Tensor:
    """As the encoder does it on the device of x: a kernel on CPUs, torch's own layers elsewhere."""
    named = dict(zip((f"layers.{name}" for name in _LAYER), weights, strict=True))
    found: Tensor = functional_call(encoder, named, (x, _starts(x)))
    return found


def _gru(x: Tensor, *weights: Tensor) -> Tensor:
    return _gated(x, GRUEncoder(WIDTH, WIDTH, 1).to(x), *weights)


def _lstm(x: Tensor, *weights: Tensor) -> Tensor:
    return _gated(x, LSTMEncoder(WIDTH, WIDTH, 1).to(x), *weights)


def _plain_gru(x: Tensor, *weights: Tensor) -> Tensor:
    h, outputs, starts = x.new_zeros(ROWS, WIDTH), [], _starts(x)
    for t in range(LENGTH):
        h = torch.gru_cell(x[:, t], torch.where(starts[:, t, None], 0.0, h), *weights)
        outputs.append(h)
    return torch.stack(outputs, 1)


def _plain_lstm(x: Tensor, *weights: Tensor) -> Tensor:
    outputs, starts = [], _starts(x)
    h = c = x.new_zeros(ROWS, WIDTH)
    for t in range(LENGTH):
        kept = ~starts[:, t, None]
        h, c = torch.lstm_cell(x[:, t], (h * kept, c * kept), *weights)
        outputs.append(h)
    return torch.stack(outputs, 1)


def _gated_inputs(gates: int) -> Callable[[Draw], list[Tensor]]:
    return lambda draw: [
        draw(ROWS, LENGTH, WIDTH),
        *(draw(gates * WIDTH, WIDTH) / 5 for _ in range(2)),
        *(draw(gates * WIDTH) for _ in range(2)),
    ]


def _heads(readings: Sequence[Reading], layers: Sequence[Tensor]) -> Tensor:
    half = len(layers) // 2
    names = [f"{kind}.{i}" for kind in ("weights", "biases") for i in range(half)]
    bare = EnsembleMLP(_HEADS, WIDTH, WIDTH, _LAYERS, 1)
    found: Tensor = functional_call(bare, dict(zip(names, layers, strict=True)), (readings,))
    return found


def _plain_heads(x: Tensor, layers: Sequence[Tensor]) -> Tensor:
    half = len(layers) // 2
    return plain_heads(x, layers[:half], layers[half:])


def _heads_inputs(draw: Draw, inputs: int) -> list[Tensor]:
    return [
        *(draw(_HEADS, *size) / 5 for size in ((WIDTH, inputs), (WIDTH, WIDTH), (1, WIDTH))),
        *(draw(_HEADS, out) for out in (WIDTH, WIDTH, 1)),
    ]


def _steps(size: int, like: Tensor) -> Tensor:
    """What is read and wants no gradient, as observations. (length, size)"""
    places = torch.arange(LENGTH * size, dtype=like.dtype, device=like.device)
    return places.sin().view(LENGTH, size)


def _before_memory(V: Tensor, c: Tensor, U: Tensor, d: Tensor) -> list[Reading]:
    return [Reading(_steps(_SEEN, V), V, c), Reading(_steps(_ACTION, U), U, d)]


def _before_policy(context: Tensor, V: Tensor, c: Tensor) -> list[Reading]:
    return [Reading(_steps(_SEEN, V), V, c), Reading(context)]


def _before_critic(
    action: Tensor, context: Tensor, V: Tensor, c: Tensor, U: Tensor, d: Tensor
) -> list[Reading]:
    return [Reading(_steps(_SEEN, V), V, c), Reading(action, U, d), Reading(context)]


def _side_by_side(readings: Sequence[Reading]) -> Tensor:
    return torch.cat([reading.embedded() for reading in readings], -1)


def _plain_dense(W: Tensor, b: Tensor, readings: Sequence[Reading]) -> Tensor:
    return F.elu(F.linear(_side_by_side(readings), W, b))


def _pre_encoder(draw: Draw, inputs: int) -> list[Tensor]:
    return [draw(_EMBEDDING, inputs), draw(_EMBEDDING)]


def _feed_forward(x: Tensor, *layers: Tensor) -> Tensor:
    up, up_bias, down, down_bias, norm, norm_bias = layers
    return feed_forward(x, (up, up_bias), (down, down_bias), (norm, norm_bias), _EPS)


def _plain_feed_forward(x: Tensor, *layers: Tensor) -> Tensor:
    up, up_bias, down, down_bias, norm, norm_bias = layers
    inner = F.linear(F.gelu(F.linear(x, up, up_bias)), down, down_bias)
    return F.layer_norm(x + inner, norm.shape, norm, norm_bias, _EPS)


def _block(x: Tensor, *weights: Tensor) -> Tensor:
    """As the encoder does it on the device of x."""
    given = BlockWeights(*weights)
    if x.device.type == "cpu":
        return mamba_block(x, _starts(x), _EPS, given)
    return _plain_block(x, *weights)


def _plain_block(x: Tensor, *weights: Tensor) -> Tensor:
    w = BlockWeights(*weights)
    normed = F.rms_norm(x, w.norm.shape, w.norm, _EPS)
    before, gate = F.linear(normed, w.in_proj).chunk(2, -1)
    u = _plain_conv(before, w.conv_weight, w.conv_bias)
    sizes = [w.dt_weight.shape[1], *2 * w.A_log.shape[1:]]
    rank, B, C = torch.split(F.linear(u, w.x_proj), sizes, -1)
    delta = F.softplus(F.linear(rank, w.dt_weight, w.dt_bias))
    h, outputs, starts, A = x.new_zeros(ROWS, *w.A_log.shape), [], _starts(x), -w.A_log.exp()
    for t in range(x.shape[1]):
        decay = torch.where(starts[:, t, None, None], 0.0, torch.exp(delta[:, t, :, None] * A))
        h = decay * h + (delta * u)[:, t, :, None] * B[:, t, None]  # (rows, channels, states)
        outputs.append((h * C[:, t, None]).sum(-1))
    y = (torch.stack(outputs, 1) + w.D * u) * F.silu(gate)
    return x + F.linear(y, w.out_proj)


def _block_inputs(draw: Draw) -> list[Tensor]:
    channels, states, rank, taps = WIDTH + 3, 5, 2, 4
    weights = BlockWeights(
        norm=draw(WIDTH),
        in_proj=draw(2 * channels, WIDTH) / 5,
        conv_weight=draw(channels, taps) / 2,
        conv_bias=draw(channels),
        x_proj=draw(rank + 2 * states, channels) / 5,
        dt_weight=draw(channels, rank),
        dt_bias=draw(channels),
        A_log=draw(channels, states) / 2,
        D=draw(channels),
        out_proj=draw(WIDTH, channels) / 5,
    )
    return [draw(ROWS, LENGTH, WIDTH), *weights]


def _layer(draw: Draw, inputs: int) -> list[Tensor]:
    return [draw(WIDTH, inputs) / 5, draw(WIDTH)]


def _dense(draw: Draw) -> list[Tensor]:
    return [draw(ROWS, LENGTH, WIDTH), *_layer(draw, WIDTH)]


CASES = {
    "causal convolution": Case(
        lambda draw: [draw(ROWS, LENGTH, WIDTH), draw(WIDTH, 4), draw(WIDTH)],
        lambda x, weight, bias: causal_conv_silu(x, weight, bias, _starts(x)),
        _plain_conv,
    ),
    "RMS norm": Case(
        lambda draw: [draw(ROWS, LENGTH, WIDTH), draw(WIDTH)],
        lambda x, weight: rms_norm(x, weight, _EPS),
        lambda x, weight: F.rms_norm(x, weight.shape, weight, _EPS),
    ),
    "dense layer with ELU": Case(_dense, dense_elu, lambda x, w, b: F.elu(F.linear(x, w, b))),
    "dense layer with softplus": Case(
        _dense, dense_softplus, lambda x, w, b: F.softplus(F.linear(x, w, b))
    ),
    "Mamba block": Case(_block_inputs, _block, _plain_block),
    "GRU": Case(_gated_inputs(3), _gru, _plain_gru),
    "LSTM": Case(_gated_inputs(4), _lstm, _plain_lstm),
    "feed-forward part": Case(
        lambda draw: [*_dense(draw), *_layer(draw, WIDTH), draw(WIDTH), draw(WIDTH)],
        _feed_forward,
        _plain_feed_forward,
    ),
    "linear layer on an ELU": Case(_dense, elu_linear, lambda x, w, b: F.linear(F.elu(x), w, b)),
    "folded pre-encoders": Case(
        lambda draw: [
            *_layer(draw, 2 * _EMBEDDING),
            *_pre_encoder(draw, _SEEN),
            *_pre_encoder(draw, _ACTION),
        ],
        lambda W, b, *given: dense_elu_folded(W, b, _before_memory(*given)),
        lambda W, b, *given: _plain_dense(W, b, _before_memory(*given)),
    ),
    "policy head, folded": Case(
        lambda draw: [
            *_layer(draw, _EMBEDDING + _CONTEXT),
            draw(LENGTH, _CONTEXT),
            *_pre_encoder(draw, _SEEN),
        ],
        lambda W, b, *given: dense_elu_folded(W, b, _before_policy(*given)),
        lambda W, b, *given: _plain_dense(W, b, _before_policy(*given)),
    ),
    "critic heads": Case(
        lambda draw: [draw(LENGTH, WIDTH), *_heads_inputs(draw, WIDTH)],
        lambda x, *layers: _heads([Reading(x)], layers),
        lambda x, *layers: _plain_heads(x, layers),
    ),
    "critic heads, folded": Case(
        lambda draw: [
            draw(LENGTH, _ACTION),
            draw(LENGTH, _CONTEXT),
            *_pre_encoder(draw, _SEEN),
            *_pre_encoder(draw, _ACTION),
            *_heads_inputs(draw, 2 * _EMBEDDING + _CONTEXT),
        ],
        lambda *given: _heads(_before_critic(*given[:6]), given[6:]),
        lambda *given: _plain_heads(_side_by_side(_before_critic(*given[:6])), given[6:]),
    ),
}
