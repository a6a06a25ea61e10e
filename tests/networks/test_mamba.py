"""The Mamba block against plain arithmetic, and the numbers of the paper's block."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from resel.config import Config
from resel.networks import Encoder, build_encoder
from resel.networks.context import ContextEncoder
from resel.networks.encoders.mamba import MambaEncoder, MambaMixer

Array = NDArray[np.float64]
EPS = 1e-8


def silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def gelu(x: Array) -> Array:
    return np.vectorize(lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2))))(x)


def plain_block(x: Array, weights: dict[str, Array], block: int) -> Array:
    """One block on one trajectory (length, width), written from its description."""

    def w(name: str) -> Array:
        return weights[f"mixers.{block}.{name}"]

    normed = x / np.sqrt((x**2).mean(-1, keepdims=True) + EPS) * weights[f"norms.{block}.weight"]
    projected = normed @ w("in_proj.weight").T
    channels = projected.shape[1] // 2
    u, gate = projected[:, :channels], projected[:, channels:]
    if f"mixers.{block}.conv_weight" in weights:
        kernel, filtered = w("conv_weight"), np.zeros_like(u)
        for t in range(len(u)):
            filtered[t] = w("conv_bias")
            for lag in range(kernel.shape[1]):
                if lag <= t:
                    filtered[t] += kernel[:, lag] * u[t - lag]
        u = silu(filtered)
    A = -np.exp(w("A_log"))  # (channels, states)
    states = A.shape[1]
    selected = u @ w("x_proj.weight").T
    rank = selected.shape[1] - 2 * states
    B, C = selected[:, rank : rank + states], selected[:, rank + states :]
    delta = np.log1p(np.exp(selected[:, :rank] @ w("dt_proj.weight").T + w("dt_proj.bias")))
    h = np.zeros((channels, states))
    mixed = np.zeros_like(u)
    for t in range(len(u)):
        for c in range(channels):
            h[c] = np.exp(delta[t, c] * A[c]) * h[c] + delta[t, c] * B[t] * u[t, c]
            mixed[t, c] = h[c] @ C[t] + w("D")[c] * u[t, c]
    return np.asarray(x + (mixed * silu(gate)) @ w("out_proj.weight").T)


def plain_end(x: Array, weights: dict[str, Array]) -> Array:
    """What comes after the last block: the feed-forward part, or a norm and a linear map."""

    def f(name: str) -> Array:
        return weights[f"last.{name}"]

    if "last.up.weight" not in weights:
        normed = x / np.sqrt((x**2).mean(-1, keepdims=True) + EPS) * f("0.weight")
        return np.asarray(normed @ f("1.weight").T)
    hidden = gelu(x @ f("up.weight").T + f("up.bias"))
    x = x + hidden @ f("down.weight").T + f("down.bias")
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + EPS)
    return scaled * f("norm.weight") + f("norm.bias")


@pytest.mark.parametrize("n_layers", [1, 2])
@pytest.mark.parametrize("taps", [0, 1, 4])
@pytest.mark.parametrize("feed_forward", [False, True])
@pytest.mark.parametrize("scale", [1.0, 1e-4])  # at the small one the norms' eps counts
def test_equals_plain_arithmetic(
    n_layers: int, taps: int, feed_forward: bool, scale: float
) -> None:
    torch.manual_seed(0)
    encoder = MambaEncoder(
        20, n_layers, expansion=2, state_size=3, conv_kernel=taps, feed_forward=feed_forward
    ).double()
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    x = scale * torch.randn(1, 9, 20, dtype=torch.float64)
    weights: dict[str, Any] = {k: v.numpy() for k, v in encoder.state_dict().items()}
    expected = x[0].numpy()
    for block in range(n_layers):
        expected = plain_block(expected, weights, block)
    expected = plain_end(expected, weights)
    with torch.no_grad():
        y = encoder(x, torch.zeros(1, 9, dtype=torch.bool))
    np.testing.assert_allclose(y[0].numpy(), expected, rtol=1e-9, atol=1e-11 * scale)


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def paper_encoder(**changes: Any) -> Encoder:
    config = Config.build("", changes)
    return build_encoder(config, config.network.width)


def test_sizes_of_the_paper() -> None:
    config = Config.build()
    assert count(paper_encoder()) == 645_888
    assert count(ContextEncoder(3 * config.network.embedding, config)) == 777_344


def test_hidden_state_of_the_paper() -> None:
    """The released code keeps the newest convolution input too: 512 x 8 + 512 x 64 = 36,864.

    That input is read anew at each step, so 7 of the 8 are all that needs to be remembered.
    """
    past, h = paper_encoder().initial_state(1)
    assert past.shape == (1, 7, 512) and h.shape == (1, 512, 64)
    assert past.numel() + h.numel() == 36_352 == 36_864 - 512


@pytest.fixture(scope="module")
def paper_block() -> MambaEncoder:
    torch.manual_seed(0)
    encoder = paper_encoder()
    assert isinstance(encoder, MambaEncoder)
    return encoder


@pytest.fixture
def mixer(paper_block: MambaEncoder) -> MambaMixer:
    mixer = paper_block.mixers[0]
    assert isinstance(mixer, MambaMixer)
    return mixer


def test_shapes_of_the_paper(mixer: MambaMixer) -> None:
    assert {name: tuple(p.shape) for name, p in mixer.named_parameters()} == {
        "conv_weight": (512, 8),
        "conv_bias": (512,),
        "A_log": (512, 64),
        "D": (512,),
        "in_proj.weight": (1024, 256),
        "x_proj.weight": (16 + 2 * 64, 512),
        "dt_proj.weight": (512, 16),
        "dt_proj.bias": (512,),
        "out_proj.weight": (256, 512),
    }


def test_state_matrix_begins_as_minus_one_to_minus_n(mixer: MambaMixer) -> None:
    A = -torch.exp(mixer.A_log.detach())
    torch.testing.assert_close(A, -torch.arange(1.0, 65).expand(512, 64))
    assert torch.all(mixer.D == 1)


def test_step_sizes_begin_log_uniform(mixer: MambaMixer) -> None:
    delta = torch.nn.functional.softplus(mixer.dt_proj.bias.detach())
    assert delta.min() >= 1e-3 * (1 - 1e-4) and delta.max() <= 0.1 * (1 + 1e-4)
    slot = (delta.log10() + 3) / 2  # uniform in [0, 1]
    quarters = torch.histc(slot, 4, 0, 1)
    assert quarters.min() > 90  # 128 expected, deviation 10
    bound = 16**-0.5
    assert mixer.dt_proj.weight.abs().max() <= bound
    assert mixer.dt_proj.weight.abs().max() > 0.99 * bound


def test_output_projection_shrinks_with_depth() -> None:
    for n_layers in (1, 4):
        torch.manual_seed(0)
        encoder = paper_encoder(n_layers=n_layers)
        assert isinstance(encoder, MambaEncoder)
        bound = 512**-0.5 / n_layers**0.5  # Kaiming-uniform with a = sqrt(5) is U(± fan_in^-0.5)
        for mixer in encoder.mixers:
            assert isinstance(mixer, MambaMixer)
            largest = float(mixer.out_proj.weight.detach().abs().max())
            assert 0.99 * bound < largest <= bound * (1 + 1e-6)


def test_feed_forward_biases_begin_at_zero(paper_block: MambaEncoder) -> None:
    weights = dict(paper_block.last.named_parameters())
    assert torch.all(weights["up.bias"] == 0) and torch.all(weights["down.bias"] == 0)
    assert torch.all(weights["norm.weight"] == 1) and torch.all(weights["norm.bias"] == 0)
    assert weights["up.weight"].shape == weights["down.weight"].shape == (256, 256)


def test_without_convolution_it_has_no_weights() -> None:
    names = {name for name, _ in paper_encoder(conv_kernel=0).named_parameters()}
    assert not any("conv" in name for name in names)


def _replace(encoder: MambaEncoder) -> MambaEncoder:
    for parameter in encoder.parameters():
        parameter.data = parameter.data * 1.5
    return encoder


def _write(encoder: MambaEncoder) -> MambaEncoder:
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.mul_(1.5)
    return encoder


@pytest.mark.parametrize(
    "change",
    [_write, _replace, copy.deepcopy, lambda e: _write(copy.deepcopy(e)), MambaEncoder.double],
)
@pytest.mark.parametrize(("taps", "feed_forward"), [(3, True), (0, False)])
def test_a_step_follows_its_weights(change: Any, taps: int, feed_forward: bool) -> None:
    """Its arrays are kept from step to step; they must not outlive the weights they stand for."""
    torch.manual_seed(0)
    encoder = MambaEncoder(
        6, 2, expansion=2, state_size=3, conv_kernel=taps, feed_forward=feed_forward
    )
    with torch.no_grad():
        encoder.step(torch.randn(2, 6), encoder.initial_state(2))
        changed = change(encoder)
        x = torch.randn(2, 6).to(next(changed.parameters()).dtype)
        y, _ = changed.step(x, changed.initial_state(2))
        expected = changed(x[:, None], torch.ones(2, 1, dtype=torch.bool))[:, 0]
    torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-6)
