"""A whole update on two threads: the same state gives the same bits, every time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from resel.config import Config
from resel.networks import Dimensions
from resel.networks.ops.cpu.threads import thread_count
from resel.training import Workload
from resel.training.threads import usable_cores

WIDTH, STEPS = 208, 1000
"""Just enough for kernels to be shared between threads."""

pytestmark = pytest.mark.skipif(usable_cores() < 2, reason="two threads need two cores")


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


def workload(encoder: str) -> Workload:
    sizes = {"width": WIDTH, "head_width": WIDTH, "embedding": 32, "n_critics": 3}
    given = {"encoder": encoder, "batch_steps": STEPS, "buffer_steps": 2 * STEPS, "device": "cpu"}
    return Workload.build(
        Config.build("", sizes, given), Dimensions(3, 2, False), 200, STEPS // 200
    )


def bits(made: Workload) -> dict[str, bytes]:
    """Of weights, targets, moments, generators: all that the next update depends on."""
    parts = {"weights": made.learner.weights(), "state": made.learner.state()[0]}
    return {
        f"{part}/{name}": tensor.numpy().tobytes()
        for part, tensors in parts.items()
        for name, tensor in tensors.items()
    }


@pytest.mark.parametrize("encoder", ["mamba", pytest.param("gru", marks=pytest.mark.slow)])
def test_an_update_made_twice(encoder: str) -> None:
    assert thread_count(WIDTH * STEPS, STEPS) == 2, "nothing would be shared at this size"
    one, other = workload(encoder), workload(encoder)
    before = bits(one)
    assert before == bits(other)
    one.cycle()
    other.cycle()
    first, second = bits(one), bits(other)
    changed = [name for name in first if first[name] != before.get(name)]
    assert len(changed) > len(before) / 2, "it was an update of everything"
    assert [name for name in first if first[name] != second[name]] == []
