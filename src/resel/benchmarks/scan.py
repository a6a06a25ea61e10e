"""`resel bench scan`: the recurrent kernels alone, beside what torch offers.

In one run and in turn: our scan; the same scan in plain torch operations; `nn.GRU(256)` over the
same rows and length; and, for small agents, our GRU of width 64 with resets against `nn.GRU(64)`
over 5 x 200 steps. `extra_memory_mb` is how far resident memory rises during one forward and
backward pass of our scan, less the bytes of the output and of the gradients (the inputs exist
before): the median of some passes, with freed memory given back in between.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from rich.table import Table
from torch import Tensor, nn

from resel._process import prepare_process
from resel.benchmarks._base import Bench, Result, number_table, timing_table
from resel.benchmarks._memory import MB, peak_memory
from resel.benchmarks._timing import Laps, forward_backward, interleave, laps
from resel.config import Count
from resel.networks.ops._scan_inputs import ScanInputs
from resel.networks.ops.recurrent import gru_packed
from resel.networks.ops.reference import scan as reference_scan
from resel.networks.ops.scan import selective_scan
from resel.training.threads import PAPER_WIDTH

_GRU_WIDTH = 256
_SMALL_GRU = (5, 200, 64)  # trajectories, steps, width
_MEMORY_ROUNDS = 5


@dataclass(frozen=True)
class ScanBench(Bench):
    """Time the selective scan beside plain torch operations and torch's GRU."""

    name: ClassVar[str] = "scan"

    rows: Count = 1
    """Tapes side by side."""
    length: Count = 1000
    """Steps."""
    channels: Count = 512
    """Channels of the scan."""
    states: Count = 64
    """States per channel."""

    def measure(self) -> Result:
        prepare_process(self.threads, PAPER_WIDTH)
        inputs = _scan_inputs(self.rows, self.length, self.channels, self.states)
        fused = forward_backward("scan", lambda: _fused_scan(inputs), inputs)
        fused()  # compiles
        extra = _extra_memory(fused, inputs)
        timings = interleave(
            [
                fused,
                _chunked_scan(inputs),
                _torch_gru("gru", self.rows, self.length, _GRU_WIDTH),
                _torch_gru("small_gru", *_SMALL_GRU),
                _fused_gru("fused_gru", *_SMALL_GRU),
            ],
            self.repetitions,
        )
        result: Result = {}
        for name, timing in timings.items():
            result |= timing.fields(name)
        return result | {
            "gru_ratio": result["scan_ms"] / result["gru_ms"],
            "fused_gru_speedup": result["small_gru_ms"] / result["fused_gru_ms"],
            "extra_memory_mb": extra / MB,
        }

    def tables(self, result: Result) -> list[Table]:
        shape = f"{self.rows} x {self.length} x {self.channels} x {self.states}"
        rows = {
            "selective scan, forward": "scan_forward_ms",
            "selective scan, backward": "scan_backward_ms",
            "selective scan": "scan_ms",
            "the same in plain torch, in chunks": "chunked_ms",
            f"nn.GRU({_GRU_WIDTH}), forward": "gru_forward_ms",
            f"nn.GRU({_GRU_WIDTH}), backward": "gru_backward_ms",
            f"nn.GRU({_GRU_WIDTH})": "gru_ms",
            "our GRU(64), 5 x 200 steps": "fused_gru_ms",
            "nn.GRU(64), 5 x 200 steps": "small_gru_ms",
        }
        ratios = number_table("", "")
        ratios.add_row("scan / nn.GRU", f"{result['gru_ratio']:.2f}")
        ratios.add_row("nn.GRU(64) / our GRU(64)", f"{result['fused_gru_speedup']:.1f}")
        ratios.add_row("extra memory of the scan, MB", f"{result['extra_memory_mb']:.1f}")
        return [timing_table(f"Recurrent kernels: {shape}", result, rows), ratios]


def _extra_memory(scan: Callable[[], Laps], inputs: list[Tensor]) -> float:
    """Bytes that a pass over `inputs` needs beyond them, the output and the gradients."""
    increases = []
    for _ in range(_MEMORY_ROUNDS):
        with peak_memory() as memory:
            scan()
        increases.append(memory.increase)
    # y is as large as u, and a gradient as large as its input
    results = sum(tensor.nbytes for tensor in [inputs[0], *inputs])
    return max(0.0, statistics.median(increases) - results)


def _scan_inputs(rows: int, length: int, channels: int, states: int) -> list[Tensor]:
    """u, delta, A, B, C, D and z of the sizes that a Mamba block makes."""
    noise = torch.Generator().manual_seed(0)
    wide, narrow = (rows, length, channels), (rows, length, states)
    inputs = [
        torch.randn(wide, generator=noise),
        torch.rand(wide, generator=noise) * 0.1,
        -torch.arange(1.0, states + 1).expand(channels, -1).clone(),
        torch.randn(narrow, generator=noise),
        torch.randn(narrow, generator=noise),
        torch.ones(channels),
        torch.randn(wide, generator=noise),
    ]
    return [tensor.requires_grad_() for tensor in inputs]


def _fused_scan(inputs: list[Tensor]) -> Tensor:
    u, delta, A, B, C, D, z = inputs
    y = selective_scan(u, delta, A, B, C, D, z)
    assert isinstance(y, Tensor)
    return y


def _chunked_scan(inputs: list[Tensor]) -> Callable[[], Laps]:
    """The scan in torch operations, as it runs on devices without a kernel of their own."""
    u, delta, A, B, C, D, z = (tensor.detach() for tensor in inputs)
    values = ScanInputs(u, delta, A, B, C, D, z, is_first=None)
    gradient = torch.randn_like(u)
    no_state = u.new_zeros(u.shape[0], *A.shape)

    def call() -> Laps:
        begin = time.perf_counter()
        _, _, saved = reference_scan.forward(values, None, True)
        middle = time.perf_counter()
        reference_scan.backward(gradient, no_state, values, saved)
        end = time.perf_counter()
        return laps("chunked", begin, middle, end)

    return call


def _torch_gru(name: str, rows: int, length: int, width: int) -> Callable[[], Laps]:
    layer = nn.GRU(width, width, batch_first=True)
    x = torch.randn(rows, length, width, requires_grad=True)
    return forward_backward(name, lambda: layer(x)[0], [x, *layer.parameters()])


def _fused_gru(name: str, rows: int, length: int, width: int) -> Callable[[], Laps]:
    layer = nn.GRU(width, width, batch_first=True)
    x = torch.randn(rows, length, width, requires_grad=True)
    is_first = torch.zeros(rows, length, dtype=torch.bool)
    is_first[:, 0] = True
    return forward_backward(
        name, lambda: gru_packed(x, is_first, layer, 0), [x, *layer.parameters()]
    )
