"""The matrix products counted are those a hand counts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from resel.agent import configure
from resel.benchmarks import _products
from resel.benchmarks._products import (
    Product,
    ProductClock,
    Recording,
    has_hidden_products,
    record_products,
)
from resel.config import Config
from resel.networks import Dimensions, build_encoder
from resel.training import Workload

CPU = torch.device("cpu")


def test_a_network_of_two_layers() -> None:
    network = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2, bias=False))
    x = torch.randn(7, 3)
    with record_products([]) as recording:
        network(x).sum().backward()
    forward = 2 * 7 * (3 * 5 + 5 * 2)
    weights = forward
    hidden = 2 * 7 * 5 * 2  # x itself wants no gradient
    assert recording.flops == forward + weights + hidden
    assert not recording.fused


def test_a_batch_of_products() -> None:
    a, b, bias = torch.randn(4, 7, 3), torch.randn(4, 5, 3), torch.randn(4, 1, 5)
    with record_products([]) as recording:
        torch.bmm(a, b.transpose(1, 2))
        torch.baddbmm(bias, a, b.transpose(1, 2))
    (product,) = recording.seen
    assert recording.seen[product] == 2 and recording.flops == 2 * (2 * 4 * 7 * 3 * 5)
    assert product.right == (4, 3, 5) and product.right_stride == (15, 1, 3)
    call = product.caller(CPU)
    assert call().shape == (4, 7, 5)


@pytest.mark.parametrize(("encoder", "gates"), [("gru", 3), ("lstm", 4)])
def test_gated_layers(encoder: str, gates: int) -> None:
    """Forward has two products per gate and place, backward twice as many."""
    width, n_layers = 8, 2
    layer = build_encoder(Config.build("", {"encoder": encoder, "n_layers": n_layers}), width)
    start = torch.zeros(1, 12, dtype=torch.bool)
    start[0, [0, 6]] = True  # two trajectories of the same length: nothing is padded
    x = torch.randn(1, 12, width, requires_grad=True)
    with record_products([layer]) as recording:
        y = layer(x, start)
    once = 2 * 12 * width * gates * width
    assert recording.flops == n_layers * 2 * once
    with record_products([layer]) as recording:
        layer(x, start).sum().backward()
    assert recording.flops == n_layers * 6 * once
    with record_products([]) as recording:
        y.detach()
    assert recording.flops == 0


def test_trajectories_of_different_lengths() -> None:
    layer = build_encoder(Config.build("", {"encoder": "gru"}), 8)
    start = torch.zeros(1, 9, dtype=torch.bool)
    start[0, [0, 5, 7]] = True  # 5, 2 and 2 steps
    with record_products([layer]) as recording, torch.no_grad():
        layer(torch.randn(1, 9, 8), start)
    assert dict(recording.fused) == {Product.plain(9, 8, 24): 1}


@pytest.mark.parametrize("encoder", ["mamba", "gru", "mlp"])
@pytest.mark.parametrize("discrete", [False, True])
def test_an_update_has_the_products_that_torch_counts(encoder: str, discrete: bool) -> None:
    config = configure("", size="tiny", encoder=encoder, batch_steps=20, device="cpu")
    workload = Workload.build(config, Dimensions(5, 3, discrete), length=10, episodes=3)
    counter = FlopCounterMode(display=False)
    with counter, record_products(workload.encoders) as recording:
        for _ in range(2):
            workload.learner.update(workload.sample())
    seen = sum(product.flops * count for product, count in recording.seen.items())
    assert seen == counter.get_total_flops() > 0
    assert recording.flops - seen == sum(p.flops * n for p, n in recording.fused.items())


def test_the_clock_measures_every_product_once() -> None:
    recording = Recording()
    recording.seen[Product.plain(3, 4, 5)] = 2
    recording.fused[Product.plain(1, 4, 4)] = 7
    clock = ProductClock.build(recording, CPU)
    assert set(clock.products) == set(recording.all())
    laps = clock()
    assert len(laps) == 2 and all(seconds > 0 for seconds in laps.values())


def test_the_clock_waits_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first reading and before the second; the factors lie on that device."""
    events: list[Any] = []
    monkeypatch.setattr(_products, "synchronize", events.append)
    monkeypatch.setattr(
        _products.time, "perf_counter", lambda: events.append("read") or len(events)
    )
    recording, device = Recording(), torch.device("meta")
    recording.seen[Product.plain(3, 4, 5)] = 1
    clock = ProductClock.build(recording, device)
    assert clock.callers[0]().device == device
    one = [device, "read", device, "read"]
    assert events == one
    clock()
    assert events == 2 * one


@pytest.mark.parametrize(
    ("encoder", "hidden"), [("mamba", False), ("gru", True), ("lstm", True), ("mlp", False)]
)
def test_whose_products_a_gpu_hides(encoder: str, hidden: bool) -> None:
    config = configure("", size="tiny", encoder=encoder, device="cpu")
    assert has_hidden_products([build_encoder(config, 8)]) == hidden
