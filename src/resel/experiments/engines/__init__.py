"""Ways of getting a list of jobs done. An engine is one function that works through a ledger."""

from resel.experiments.engines._ledger import ATTEMPTS, Entry, Ledger
from resel.experiments.engines._state import FINISHED, RunState, Status, is_finished, read_state
from resel.experiments.engines.local import run_local
from resel.experiments.engines.ray import check_reachable, run_ray
from resel.experiments.engines.slurm import slurm_script

__all__ = [
    "ATTEMPTS",
    "FINISHED",
    "Entry",
    "Ledger",
    "RunState",
    "Status",
    "check_reachable",
    "is_finished",
    "read_state",
    "run_local",
    "run_ray",
    "slurm_script",
]
