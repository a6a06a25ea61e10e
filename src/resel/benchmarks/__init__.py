"""Speed and memory against the machine's own limits: the parts of `resel bench`."""

from resel.benchmarks._base import Bench, Result, run
from resel.benchmarks.buffer import BufferBench
from resel.benchmarks.collect import CollectBench
from resel.benchmarks.cost import UpdateCost, measure_cost
from resel.benchmarks.cost_model import CostModel, measure_model, work_of
from resel.benchmarks.export import ExportBench
from resel.benchmarks.growth import GrowthBench
from resel.benchmarks.kept_costs import KeptCosts, cache_folder, cost_key
from resel.benchmarks.methods import MethodsBench
from resel.benchmarks.play_cost import PlayCost
from resel.benchmarks.scaling import ScalingBench
from resel.benchmarks.scan import ScanBench
from resel.benchmarks.solve import SolveBench
from resel.benchmarks.startup import StartupBench
from resel.benchmarks.step import StepBench
from resel.benchmarks.update import UpdateBench

__all__ = [
    "PARTS",
    "Bench",
    "CostModel",
    "KeptCosts",
    "PlayCost",
    "Result",
    "ScalingBench",
    "UpdateCost",
    "cache_folder",
    "cost_key",
    "measure_cost",
    "measure_model",
    "run",
    "work_of",
]

PARTS: tuple[Bench, ...] = (
    ScanBench(),
    UpdateBench(),
    StepBench(),
    ExportBench(),
    ScalingBench(),
    BufferBench(),
    StartupBench(),
    SolveBench(),
    MethodsBench(),
    CollectBench(),
    GrowthBench(),
)
"""Every part, with its defaults."""
