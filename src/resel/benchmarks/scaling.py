"""`resel bench scaling`: time and memory of an update against length, batch and depth.

Made-up trajectories, sizes as in HalfCheetah. Along the length a batch holds 1000 steps (ten
trajectories of 100, and so on) or, beyond that, one trajectory. `cut_ratio` is the time of one
trajectory of 1000 steps over that of 20 of 50, `doubling_ratio` that of one of 2000 over one of
1000, for each encoder. `layers` are the recurrent blocks alone, forward and backward over one
trajectory, as in the paper's figure.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from rich.table import Table

from resel._process import prepare_process
from resel.agent import configure
from resel.benchmarks._base import Bench, Result, number_table, short
from resel.benchmarks._memory import MB, peak_memory
from resel.benchmarks._scaling_picture import draw_scaling
from resel.benchmarks._timing import Laps, forward_backward, interleave, seconds_of
from resel.benchmarks._workload import HALF_CHEETAH
from resel.config import Config, Count, SizeName
from resel.data import pack
from resel.errors import ConfigError
from resel.networks import build_encoder, encoder_spec
from resel.runs import available_memory
from resel.training import Workload, compile_kernels, filled_buffer

_BATCH_STEPS = 1000
_LENGTHS = (100, 200, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 50_000)
_BATCHES = (1000, 2000, 4000, 8000)
_BLOCKS = (1, 2, 3, 4)
_QUICK_LENGTHS, _QUICK_BATCHES, _QUICK_BLOCKS = (100, 1000, 2000), (1000, 2000), (1, 2)
_HEADROOM = 1.5


class Point(NamedTuple):
    """One network on one kind of batch."""

    steps: int
    """Valid steps of the batch."""
    length: int
    """Steps of each trajectory."""
    blocks: int = 1


_WHOLE, _CUT, _DOUBLED = Point(1000, 1000), Point(1000, 50), Point(2000, 2000)


def sweeps(quick: bool) -> dict[str, list[Point]]:
    """What is varied, and the points of each: some stand in more than one."""
    lengths, batches, blocks = (
        (_QUICK_LENGTHS, _QUICK_BATCHES, _QUICK_BLOCKS) if quick else (_LENGTHS, _BATCHES, _BLOCKS)
    )
    return {
        "length": [Point(max(length, _BATCH_STEPS), length) for length in lengths],
        "batch": [Point(batch, _BATCH_STEPS) for batch in batches],
        "blocks": [_WHOLE._replace(blocks=count) for count in blocks],
        "cut": [_WHOLE, _CUT],
    }


@dataclass(frozen=True)
class ScalingBench(Bench):
    """Time an update against trajectory length, batch size and number of blocks."""

    name: ClassVar[str] = "scaling"

    repetitions: Count = 3
    """How often each point is timed; the median counts."""
    encoders: tuple[str, ...] = ("mamba", "gru", "mlp")
    """Recurrent blocks to compare."""
    size: SizeName = "paper"
    """Network size."""
    quick: bool = False
    """Fewer points."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.encoders:
            raise ConfigError("--encoders needs at least one name, such as mamba.")

    def measure(self) -> Result:
        points: list[dict[str, Any]] = []
        left_out: list[dict[str, Any]] = []
        layers: list[dict[str, Any]] = []
        cut: dict[str, float] = {}
        doubling: dict[str, float] = {}
        for encoder in dict.fromkeys(self.encoders):
            config = configure("", size=self.size, encoder=encoder, device="cpu")
            prepare_process(self.threads, config.network.width)
            measured, too_large = _measure_encoder(config, sweeps(self.quick), self.repetitions)
            points += measured.values()
            left_out += too_large
            if encoder_spec(encoder).memory:
                lengths = _QUICK_LENGTHS if self.quick else _LENGTHS
                layers += _measure_layer(config, lengths, self.repetitions)
            whole = measured[_WHOLE]["update_ms"]
            cut[encoder] = whole / measured[_CUT]["update_ms"]
            doubling[encoder] = measured[_DOUBLED]["update_ms"] / whole
        return {
            "points": points,
            "left_out": left_out,
            "layers": layers,
            "cut_ratio": cut,
            "doubling_ratio": doubling,
        }

    def tables(self, result: Result) -> list[Table]:
        columns = ("blocks", "trajectories", "length", "steps", "ms", "10 %", "90 %", "MB")
        table = number_table(f"One update, {self.size} network", *columns)
        for point in result["points"]:
            counts = (point[name] for name in ("blocks", "trajectories", "length", "steps"))
            names = ("update_ms", "update_ms_p10", "update_ms_p90", "memory_mb")
            numbers = (short(point[name]) for name in names)
            table.add_row(point["encoder"], *(f"{count:,}" for count in counts), *numbers)
        missing = number_table(
            "Left out: more memory than is free", "blocks", "length", "steps", "GB"
        )
        for point in result["left_out"]:
            sizes = (f"{point[name]:,}" for name in ("blocks", "length", "steps"))
            missing.add_row(point["encoder"], *sizes, short(point["needed_gb"]))
        ratios = number_table("", *result["cut_ratio"])
        for text, name in (
            ("1 x 1000 steps / 20 x 50", "cut_ratio"),
            ("1 x 2000 steps / 1 x 1000", "doubling_ratio"),
        ):
            ratios.add_row(text, *(f"{ratio:.2f}" for ratio in result[name].values()))
        alone = number_table("Recurrent block alone", "length", "forward ms", "backward ms")
        for layer in result["layers"]:
            numbers = (short(layer[name]) for name in ("forward_ms", "backward_ms"))
            alone.add_row(layer["encoder"], f"{layer['length']:,}", *numbers)
        return [table, *([missing] if result["left_out"] else []), ratios, alone]

    def write(self, result: Result, folder: Path) -> list[Path]:
        table, picture = folder / "scaling.csv", folder / "scaling.png"
        with table.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(result["points"][0]))
            writer.writeheader()
            for point in result["points"]:
                writer.writerow({**point, "sweeps": "+".join(point["sweeps"])})
        draw_scaling(result["points"], self.size, picture)
        return [*super().write(result, folder), table, picture]


def _measure_encoder(
    config: Config, plan: dict[str, list[Point]], repetitions: int
) -> tuple[dict[Point, dict[str, Any]], list[dict[str, Any]]]:
    """The numbers of every point, all of them timed in turn; points that would not fit."""
    compile_kernels(config, HALF_CHEETAH)
    points = sorted({point for sweep in plan.values() for point in sweep})
    networks = {
        blocks: _warm_network(config.replace(n_layers=blocks))
        for blocks in {point.blocks for point in points}
    }
    calls: dict[Point, Callable[[], Laps]] = {}
    memory: dict[Point, int] = {}
    too_large: list[dict[str, Any]] = []
    for point in points:
        needed = _missing_room(point, memory)
        if needed is not None:
            facts = {"encoder": config.encoder, **point._asdict(), "needed_gb": needed / 1e9}
            too_large.append(facts)
            continue
        calls[point] = _updating(networks[point.blocks], point)
        with peak_memory() as peak:
            calls[point]()
        memory[point] = peak.increase
    timings = interleave(list(calls.values()), repetitions, warmups=0)
    measured = {
        point: {
            "encoder": config.encoder,
            "sweeps": [name for name, sweep in plan.items() if point in sweep],
            "blocks": point.blocks,
            "trajectories": point.steps // point.length,
            "length": point.length,
            "steps": point.steps,
            **timings[str(point)].fields("update_ms"),
            "memory_mb": memory[point] / MB,
        }
        for point in calls
    }
    return measured, too_large


def _measure_layer(
    config: Config, lengths: Sequence[int], repetitions: int
) -> list[dict[str, Any]]:
    """Forward and backward time of the recurrent block over one trajectory of each length."""
    encoder = build_encoder(config, config.network.width)
    parameters = list(encoder.parameters())

    def over(length: int) -> Callable[[], Laps]:
        x = torch.randn(1, length, config.network.width, requires_grad=True)
        start = torch.zeros(1, length, dtype=torch.bool)
        start[:, 0] = True
        return forward_backward(str(length), lambda: encoder(x, start), [x, *parameters])

    timings = interleave([over(length) for length in lengths], repetitions)
    return [
        {
            "encoder": config.encoder,
            "length": length,
            **timings[f"{length}_forward_ms"].fields("forward_ms"),
            **timings[f"{length}_backward_ms"].fields("backward_ms"),
        }
        for length in lengths
    ]


def _warm_network(config: Config) -> Workload:
    """A learner whose optimisers have their state, which no point should be charged with."""
    workload = Workload.build(config, HALF_CHEETAH, length=4, episodes=1)
    for _ in range(workload.learner.updates_to_log):
        workload.learner.update(workload.sample())
    return workload


def _updating(workload: Workload, point: Point) -> Callable[[], Laps]:
    """Updates on one fixed batch; the mean over a full policy cycle."""
    buffer = filled_buffer(HALF_CHEETAH, point.length, point.steps // point.length)
    rows = workload.learner.policy.suitable_rows([piece.length + 1 for piece in buffer])
    batch = pack(buffer, list(buffer), rows)
    count = workload.learner.updates_to_log

    def cycle() -> None:
        for _ in range(count):
            workload.learner.update(batch)

    return lambda: {str(point): seconds_of(cycle) / count}


def _missing_room(point: Point, memory: Mapping[Point, int]) -> float | None:
    """Bytes that a point may need, going by a smaller batch, if they are more than is free."""
    available = available_memory()
    if not memory or available is None:
        return None
    largest = max(memory, key=lambda seen: seen.steps)
    needed = _HEADROOM * memory[largest] / largest.steps * point.steps
    # What the ratios are made of is measured anyway: it is small, and without it there is nothing.
    return needed if needed > available and point not in (_WHOLE, _CUT, _DOUBLED) else None
