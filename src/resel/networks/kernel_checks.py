"""Every kernel beside its reference, on a device: what `resel doctor` looks at.

A case is run as the networks run it, in float32 on the device, and once more in torch's own
operations, in float64 on the CPU; outputs and gradients are compared. Encoders are run over a
sequence and step by step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional as F

from resel.networks.encoders import EncoderSpec, encoders
from resel.networks.encoders.base import Encoder
from resel.networks.encoders.gated import GRUEncoder, LSTMEncoder
from resel.networks.ensemble import EnsembleMLP, plain_heads
from resel.networks.folding import Reading
from resel.networks.ops import _scan_operator as scan_operator
from resel.networks.ops.activation import dense_elu, dense_softplus
from resel.networks.ops.checking import ALLOWED, deviation, scan_deviation
from resel.networks.ops.conv import causal_conv_silu
from resel.networks.ops.mamba_block import BlockWeights, mamba_block
from resel.networks.ops.norm import rms_norm

_ROWS, _LENGTH, _WIDTH = 2, 37, 24
_HEADS, _LAYERS = 3, 2
_EPS = 1e-5
_LAYER = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
Draw = Callable[..., Tensor]


class KernelCheck(NamedTuple):
    """How one kernel did."""

    name: str
    deviation: float | None
    """None if it failed."""
    fault: str
    seconds: float
    """Compiling included, where that was never done."""

    @property
    def good(self) -> bool:
        """Whether it can be relied on."""
        return self.deviation is not None and self.deviation <= ALLOWED


class _Case(NamedTuple):
    inputs: Callable[[Draw], list[Tensor]]
    ours: Callable[..., Tensor]
    plain: Callable[..., Tensor]


def check_kernels(device: torch.device) -> Iterator[KernelCheck]:
    """Look at one after the other."""
    yield _timed("selective scan", lambda: _scan(device))
    for name, case in _CASES.items():
        yield _timed(name, lambda case=case: _compare(case, device))  # type: ignore[misc]
    for spec in encoders()[0]:
        if spec.memory:
            name = f"encoder {spec.name}, a step at a time"
            yield _timed(name, lambda spec=spec: _step_by_step(spec, device))  # type: ignore[misc]


def _timed(name: str, check: Callable[[], float]) -> KernelCheck:
    begin, found, fault = time.perf_counter(), None, ""
    try:
        found = check()
    except Exception as error:  # whatever a compiler or a driver raises
        fault = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    return KernelCheck(name, found, fault, time.perf_counter() - begin)


def _scan(device: torch.device) -> float:
    return scan_deviation(scan_operator._kernels(device.type), device)


def _compare(case: _Case, device: torch.device) -> float:
    rng = torch.Generator().manual_seed(0)
    inputs = case.inputs(lambda *size: torch.randn(*size, generator=rng, dtype=torch.float64))
    here = [tensor.to(device, torch.float32) for tensor in inputs]
    weights = torch.randn(case.plain(*inputs).shape, generator=rng, dtype=torch.float64)
    return deviation(_results(case.ours, here, weights), _results(case.plain, inputs, weights))


def _results(function: Callable[..., Tensor], inputs: list[Tensor], weights: Tensor) -> list[Any]:
    """The output, and the gradient of a weighting of it for every input."""
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    y = function(*leaves)
    return [y, *torch.autograd.grad((y * weights.to(y)).sum(), leaves)]


@torch.no_grad()
def _step_by_step(spec: EncoderSpec, device: torch.device) -> float:
    """An encoder over a sequence beside the same encoder one step at a time."""
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(_ROWS, _LENGTH, _WIDTH, generator=rng).to(device)
    is_first = torch.zeros(_ROWS, _LENGTH, dtype=torch.bool, device=device)
    is_first[:, 0] = True
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(0)
        encoder = spec.build(spec.settings(), _WIDTH).to(device).eval()
    state, steps = encoder.initial_state(_ROWS), []
    for t in range(_LENGTH):
        y, state = encoder.step(x[:, t], state)
        steps.append(y)
    return deviation([torch.stack(steps, 1)], [encoder(x, is_first)])


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
    return _gated(x, GRUEncoder(_WIDTH, _WIDTH, 1).to(x), *weights)


def _lstm(x: Tensor, *weights: Tensor) -> Tensor:
    return _gated(x, LSTMEncoder(_WIDTH, _WIDTH, 1).to(x), *weights)


def _plain_gru(x: Tensor, *weights: Tensor) -> Tensor:
    h, outputs, starts = x.new_zeros(_ROWS, _WIDTH), [], _starts(x)
    for t in range(_LENGTH):
        h = torch.gru_cell(x[:, t], torch.where(starts[:, t, None], 0.0, h), *weights)
        outputs.append(h)
    return torch.stack(outputs, 1)


def _plain_lstm(x: Tensor, *weights: Tensor) -> Tensor:
    outputs, starts = [], _starts(x)
    h = c = x.new_zeros(_ROWS, _WIDTH)
    for t in range(_LENGTH):
        kept = ~starts[:, t, None]
        h, c = torch.lstm_cell(x[:, t], (h * kept, c * kept), *weights)
        outputs.append(h)
    return torch.stack(outputs, 1)


def _gated_inputs(gates: int) -> Callable[[Draw], list[Tensor]]:
    return lambda draw: [
        draw(_ROWS, _LENGTH, _WIDTH),
        *(draw(gates * _WIDTH, _WIDTH) / 5 for _ in range(2)),
        *(draw(gates * _WIDTH) for _ in range(2)),
    ]


def _heads(x: Tensor, *layers: Tensor) -> Tensor:
    half = len(layers) // 2
    names = [f"{kind}.{i}" for kind in ("weights", "biases") for i in range(half)]
    bare = EnsembleMLP(_HEADS, _WIDTH, _WIDTH, _LAYERS, 1)
    found: Tensor = functional_call(bare, dict(zip(names, layers, strict=True)), ([Reading(x)],))
    return found


def _plain_heads(x: Tensor, *layers: Tensor) -> Tensor:
    half = len(layers) // 2
    return plain_heads(x, layers[:half], layers[half:])


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
    h, outputs, starts, A = x.new_zeros(_ROWS, *w.A_log.shape), [], _starts(x), -w.A_log.exp()
    for t in range(x.shape[1]):
        decay = torch.where(starts[:, t, None, None], 0.0, torch.exp(delta[:, t, :, None] * A))
        h = decay * h + (delta * u)[:, t, :, None] * B[:, t, None]  # (rows, channels, states)
        outputs.append((h * C[:, t, None]).sum(-1))
    y = (torch.stack(outputs, 1) + w.D * u) * F.silu(gate)
    return x + F.linear(y, w.out_proj)


def _block_inputs(draw: Draw) -> list[Tensor]:
    channels, states, rank, taps = _WIDTH + 3, 5, 2, 4
    weights = BlockWeights(
        norm=draw(_WIDTH),
        in_proj=draw(2 * channels, _WIDTH) / 5,
        conv_weight=draw(channels, taps) / 2,
        conv_bias=draw(channels),
        x_proj=draw(rank + 2 * states, channels) / 5,
        dt_weight=draw(channels, rank),
        dt_bias=draw(channels),
        A_log=draw(channels, states) / 2,
        D=draw(channels),
        out_proj=draw(_WIDTH, channels) / 5,
    )
    return [draw(_ROWS, _LENGTH, _WIDTH), *weights]


def _dense(draw: Draw) -> list[Tensor]:
    return [draw(_ROWS, _LENGTH, _WIDTH), draw(_WIDTH, _WIDTH) / 5, draw(_WIDTH)]


_CASES = {
    "causal convolution": _Case(
        lambda draw: [draw(_ROWS, _LENGTH, _WIDTH), draw(_WIDTH, 4), draw(_WIDTH)],
        lambda x, weight, bias: causal_conv_silu(x, weight, bias, _starts(x)),
        _plain_conv,
    ),
    "RMS norm": _Case(
        lambda draw: [draw(_ROWS, _LENGTH, _WIDTH), draw(_WIDTH)],
        lambda x, weight: rms_norm(x, weight, _EPS),
        lambda x, weight: F.rms_norm(x, weight.shape, weight, _EPS),
    ),
    "dense layer with ELU": _Case(_dense, dense_elu, lambda x, w, b: F.elu(F.linear(x, w, b))),
    "dense layer with softplus": _Case(
        _dense, dense_softplus, lambda x, w, b: F.softplus(F.linear(x, w, b))
    ),
    "Mamba block": _Case(_block_inputs, _block, _plain_block),
    "GRU": _Case(_gated_inputs(3), _gru, _plain_gru),
    "LSTM": _Case(_gated_inputs(4), _lstm, _plain_lstm),
    "critic heads": _Case(
        lambda draw: [
            draw(_LENGTH, _WIDTH),
            *(draw(_HEADS, out, _WIDTH) / 5 for out in (_WIDTH, _WIDTH, 1)),
            *(draw(_HEADS, out) for out in (_WIDTH, _WIDTH, 1)),
        ],
        _heads,
        _plain_heads,
    ),
}
