"""`resel bench update`: one update, against the matrix products it cannot do without.

Trajectories are made up: sizes as in HalfCheetah (17 observations, 6 actions) and one trajectory of
--batch-steps steps, or the sizes, horizon and settings of a task. `update_ms` is the mean over
policy_delay updates in a row, so it holds the right share of policy updates. `limit_ms` is the time
torch needs for the matrix products of the update alone, each measured by itself, in the same shape
and layout and in turn with the updates. `ratio` is update_ms / limit_ms. With --lr-ce-auto,
`auto_lr_share` is what the measurements of an automatic LR_CE add to the updates between them. On a
GPU the clock is read when it has done all it was given; what is said of products is left out where
it hides some.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from rich.table import Table

from resel._process import prepare_process
from resel.agent import configure
from resel.benchmarks._base import Bench, Result, number_table, short, timing_table
from resel.benchmarks._memory import MB, Peak, peak_memory
from resel.benchmarks._products import (
    ProductClock,
    Recording,
    has_hidden_products,
    record_products,
)
from resel.benchmarks._timing import (
    Laps,
    Timing,
    interleave,
    keep_busy,
    seconds_of,
    synchronize,
)
from resel.benchmarks._workload import HALF_CHEETAH
from resel.config import Config, Count, SizeName
from resel.envs import DEFAULT_EPISODE_CAP, CheckedEnv
from resel.errors import ConfigError
from resel.networks import Dimensions
from resel.optim import MEASURE_EVERY
from resel.tasks import get_task, make_env
from resel.training import Workload, batch_steps, choose_device, compile_kernels
from resel.training.threads import width_of

_EPISODES = 20
_WARMUPS = 3
_PROFILED = 15


@dataclass(frozen=True)
class UpdateBench(Bench):
    """Time one update, and compare it with its matrix products alone."""

    name: ClassVar[str] = "update"

    task: str | None = None
    """Take sizes, horizon and settings of this task; the simulator must be installed."""
    encoder: str | None = None
    """Recurrent block; mamba or what the task says, if not given."""
    batch_steps: Count | None = None
    """Steps of the batch; 1000 or what the task says, if not given."""
    size: SizeName | None = None
    """Network size; the paper's or what the task says, if not given."""
    device: str = "cpu"
    """Where updates are made: cpu, cuda (cuda:1 and so on) or auto."""
    lr_ce_auto: bool = False
    """Learn with an automatic LR_CE, and tell what its measurements cost."""
    profile: bool = False
    """Also tell where the time goes."""
    busy: Count = 0
    """Processes that compute beside it, to see what threads cost on a busy machine."""

    @property
    def beside(self) -> int:
        return self.busy

    def where(self) -> torch.device:
        device = choose_device(self.config().training.device)
        of_processors = {"--threads": self.threads, "--profile": self.profile, "--busy": self.busy}
        asked = [flag for flag, given in of_processors.items() if given]
        if device.type != "cpu" and asked:
            raise ConfigError(
                f"{' and '.join(asked)} cannot be had with --device {self.device}: what the "
                "processors do is measured with --device cpu only. Leave out one or the other."
            )
        return device

    def config(self) -> Config:
        """The settings measured with."""
        named: dict[str, Any] = {
            "encoder": self.encoder,
            "batch_steps": self.batch_steps,
            "lr_context_encoder": "auto" if self.lr_ce_auto else None,
        }
        given = {name: value for name, value in named.items() if value is not None}
        return configure(self.task or "", size=self.size, device=self.device, **given)

    def measure(self) -> Result:
        config, device = self.config(), self.where()
        dims, length = sizes_of(config)
        prepare_process(self.threads, width_of(config))
        if device.type == "cpu":
            compile_kernels(config, dims)
        per_batch = -(-batch_steps(config) // length)
        workload = Workload.build(config, dims, length, _EPISODES * per_batch, device)
        with peak_memory() as memory:
            for _ in range(_WARMUPS):
                _one_round(workload)
        recording = _record(workload, device)
        clocks = [ProductClock.build(recording, device)] if recording is not None else []
        with keep_busy(self.busy):
            calls: list[Callable[[], Laps]] = [lambda: _one_round(workload), *clocks]
            if self.lr_ce_auto:
                calls.append(lambda: _one_measurement(workload))
            timings = interleave(calls, self.repetitions)
        batch, delay = workload.sample(), workload.learner.updates_to_log
        return {
            "config": config.to_json(),
            "observation_size": dims.observation,
            "action_size": dims.action,
            "trajectory_length": length,
            "valid_steps": batch.steps,
            "places": batch.is_first.numel(),
            "spin_count": os.environ.get("GOMP_SPINCOUNT"),
            **_numbers(timings, memory, device),
            **(_beside_products(timings, clocks[0], delay) if clocks else {}),
            **(_of_measurements(timings) if self.lr_ce_auto else {}),
            **({"profile": _profile(workload)} if self.profile else {}),
        }

    def tables(self, result: Result) -> list[Table]:
        config = result["config"]
        title = (
            f"One update: {config['encoder'] or config['method']}, {result['valid_steps']} steps"
        )
        rows = {
            "update": "update_ms",
            "of the processor, all threads": "update_cpu_ms",
            "its matrix products alone": "limit_ms",
            "drawing and packing the batch": "sampling_ms",
        }
        if "auto_lr_ms" in result:
            rows[f"measuring LR_CE, once in {MEASURE_EVERY} updates"] = "auto_lr_ms"
        facts = number_table("", "")
        if result["device"] != "cpu":
            facts.add_row("device", f"{result['device']}, {result['machine']['gpu']}")
        if "ratio" in result:
            facts.add_row("update / products alone", f"{result['ratio']:.2f}")
            facts.add_row("GFLOP per update", f"{result['flops_per_update'] / 1e9:.2f}")
        else:
            del rows["its matrix products alone"]
            facts.add_row("its matrix products alone", "not all seen on a GPU")
        facts.add_row("share of drawing and packing", f"{result['sampling_share']:.1%}")
        if "auto_lr_share" in result:
            facts.add_row("measuring LR_CE, beside the updates", f"{result['auto_lr_share']:.2%}")
        if "gpu_memory_mb" in result:
            facts.add_row("peak memory of the GPU, MB", f"{result['gpu_memory_mb']:.0f}")
        facts.add_row("peak memory, MB", f"{result['peak_memory_mb']:.0f}")
        facts.add_row("of it for the updates, MB", f"{result['update_memory_mb']:.0f}")
        tables = [timing_table(title, result, rows), facts]
        if self.profile:
            tables += [_product_table(result["products"]), _profile_table(result["profile"])]
        return tables


def sizes_of(config: Config) -> tuple[Dimensions, int]:
    """What the networks are built for, and the length of a trajectory."""
    if not config.task:
        return HALF_CHEETAH, batch_steps(config)
    spec = get_task(config.task)
    stage = CheckedEnv(make_env(config.task, max_episode_steps=config.training.max_episode_steps))
    try:
        limit = stage.env.spec.max_episode_steps if stage.env.spec is not None else None
        horizon = config.training.max_episode_steps or (spec.horizon if spec else limit)
        dims = Dimensions.of(stage.observation, stage.action)
    finally:
        stage.close()
    return dims, horizon or DEFAULT_EPISODE_CAP


def _one_round(workload: Workload) -> Laps:
    """Seconds of one update and of drawing one batch, each as the mean of a full policy cycle."""
    count, device = workload.learner.updates_to_log, workload.learner.device
    synchronize(device)
    begin = time.perf_counter()
    batches = [workload.sample() for _ in range(count)]
    synchronize(device)
    middle, spent = time.perf_counter(), time.process_time()
    for batch in batches:
        workload.learner.update(batch)
    synchronize(device)
    end, spent = time.perf_counter(), time.process_time() - spent
    return {
        "update": (end - middle) / count,
        "update_cpu": spent / count,
        "sampling": (middle - begin) / count,
    }


def _one_measurement(workload: Workload) -> Laps:
    """Seconds of what an automatic LR_CE does once in `MEASURE_EVERY` updates."""
    learner, batch = workload.learner, workload.sample()
    synchronize(learner.device)
    took = seconds_of(lambda: learner.measure_rate(batch))  # it waits for the device itself
    return {"auto_lr": took}


def _record(workload: Workload, device: torch.device) -> Recording | None:
    """The products of one round, checked against torch's own count; None if a GPU hides some."""
    from torch.utils.flop_counter import FlopCounterMode  # it brings Triton along

    on_gpu = device.type != "cpu"
    if on_gpu and has_hidden_products(workload.encoders):
        return None
    counter = FlopCounterMode(display=False)
    with counter, record_products(workload.encoders) as recording:
        _one_round(workload)
    seen = sum(product.flops * count for product, count in recording.seen.items())
    if seen != counter.get_total_flops():
        if on_gpu:
            return None
        raise RuntimeError(
            f"The update has products of a kind that is not recorded: torch counts "
            f"{counter.get_total_flops()} FLOP, the record holds {seen}."
        )
    return recording


def _numbers(timings: dict[str, Timing], memory: Peak, device: torch.device) -> Result:
    update, sampling = timings["update"], timings["sampling"]
    on_gpu = device.type == "cuda"
    of_gpu = {"gpu_memory_mb": torch.cuda.max_memory_allocated(device) / MB} if on_gpu else {}
    return {
        **update.fields("update_ms"),
        **timings["update_cpu"].fields("update_cpu_ms"),
        **sampling.fields("sampling_ms"),
        "sampling_share": sampling.median / (sampling.median + update.median),
        "peak_memory_mb": memory.total / MB,
        "update_memory_mb": memory.increase / MB,
        **of_gpu,
    }


def _of_measurements(timings: dict[str, Timing]) -> Result:
    measured, update = timings["auto_lr"], timings["update"]
    share = measured.median / (MEASURE_EVERY * update.median)
    return {**measured.fields("auto_lr_ms"), "auto_lr_share": share}


def _beside_products(timings: dict[str, Timing], clock: ProductClock, delay: int) -> Result:
    recording = clock.recording
    executed = recording.all()
    alone = [timings[f"product {index}"] for index in range(len(clock.products))]
    per_update = [executed[product] / delay for product in clock.products]

    def limit_of(choose: Callable[[Timing], float]) -> float:
        return sum(n * choose(timing) for n, timing in zip(per_update, alone, strict=True))

    limit = limit_of(lambda timing: timing.median)
    return {
        "flops_per_update": recording.flops / delay,
        "fused_flops_per_update": sum(p.flops * n for p, n in recording.fused.items()) / delay,
        "limit_ms": limit,
        "limit_ms_p10": limit_of(lambda timing: timing.p10),
        "limit_ms_p90": limit_of(lambda timing: timing.p90),
        "ratio": timings["update"].median / limit,
        "products": [
            {
                "left": list(product.left),
                "left_stride": list(product.left_stride),
                "right": list(product.right),
                "right_stride": list(product.right_stride),
                "per_update": count,
                "ms": timing.median,
                "gflops": product.flops / timing.median / 1e6,
            }
            for product, count, timing in zip(clock.products, per_update, alone, strict=True)
        ],
    }


def _profile(workload: Workload) -> list[dict[str, Any]]:
    """The operations that take longest themselves, per update."""
    from torch.profiler import ProfilerActivity, profile

    count = workload.learner.updates_to_log
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        _one_round(workload)
    events = sorted(profiler.key_averages(), key=lambda event: -event.self_cpu_time_total)
    return [
        {
            "operation": event.key,
            "self_ms": event.self_cpu_time_total / 1e3 / count,
            "calls": event.count / count,
        }
        for event in events[:_PROFILED]
    ]


def _product_table(products: list[dict[str, Any]]) -> Table:
    table = number_table("Matrix products that take longest", "per update", "ms", "GFLOPS")
    for product in sorted(products, key=lambda p: -p["ms"] * p["per_update"])[:_PROFILED]:
        left, right = (_layout(product, side) for side in ("left", "right"))
        numbers = (product["per_update"], product["ms"], product["gflops"])
        table.add_row(f"{left} {right}", *map(short, numbers))
    return table


def _layout(product: dict[str, Any], side: str) -> str:
    """The sizes of a factor, with a T if it lies in memory column by column."""
    *_, across, along = product[f"{side}_stride"]
    return f"({' x '.join(map(str, product[side]))}){'T' if across < along else ''}"


def _profile_table(profile: list[dict[str, Any]]) -> Table:
    table = number_table("Where the time of an update goes", "self ms", "calls")
    for entry in profile:
        table.add_row(entry["operation"], short(entry["self_ms"]), f"{entry['calls']:g}")
    return table
