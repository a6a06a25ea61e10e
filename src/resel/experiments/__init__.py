"""The paper's figures and tables: what to run for each, how to get it run, what comes of it."""

from resel.experiments._settings import SCALES, Experiment, Setting, Study
from resel.experiments.catalogue import CATALOGUE, choose, narrowed, with_preset, with_seeds
from resel.experiments.comparison import COMPARISON, check_methods, comparison
from resel.experiments.engines import (
    Entry,
    Ledger,
    check_reachable,
    read_state,
    run_local,
    run_ray,
)
from resel.experiments.plan import (
    Job,
    check_out,
    default_slots,
    threads_for,
    train_command,
)
from resel.experiments.reproduce import Sweep, reproduce

__all__ = [
    "CATALOGUE",
    "COMPARISON",
    "SCALES",
    "Entry",
    "Experiment",
    "Job",
    "Ledger",
    "Setting",
    "Study",
    "Sweep",
    "check_methods",
    "check_out",
    "check_reachable",
    "choose",
    "comparison",
    "default_slots",
    "narrowed",
    "read_state",
    "reproduce",
    "run_local",
    "run_ray",
    "threads_for",
    "train_command",
    "with_preset",
    "with_seeds",
]
