"""What an experiment leaves: tables, pictures and the data behind them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from resel.choices import Scale
from resel.errors import RunDirectoryError
from resel.experiments._settings import NEED_AGENTS, Experiment
from resel.experiments.engines import Status
from resel.experiments.outcomes._agents import Evaluations
from resel.experiments.outcomes._beside import make_anchors, make_mmer
from resel.experiments.outcomes._comparison import make_comparison
from resel.experiments.outcomes._curves import make_curves, make_finals
from resel.experiments.outcomes._lengths import make_lengths
from resel.experiments.outcomes._probes import make_amplification, make_embedding
from resel.experiments.outcomes._rates import make_rates
from resel.experiments.outcomes._reading import completed, read_runs
from resel.experiments.outcomes._tables import make_table
from resel.experiments.outcomes._timing import make_timing
from resel.experiments.plan import Member

__all__ = ["Evaluations", "make_outcome"]


def make_outcome(
    experiment: Experiment,
    scale: Scale,
    members: Sequence[Member],
    status: dict[Path, Status],
    folder: Path,
) -> list[str]:
    """Write the files of an experiment into its folder; their names."""
    study, runs = experiment.studies[scale], read_runs(members, status)
    if experiment.kind in NEED_AGENTS and not completed(runs):
        raise RunDirectoryError("no run was completed, and this figure needs a trained policy")
    if experiment.kind == "curves":
        return make_curves(experiment, runs, folder)
    if experiment.kind == "finals":
        return make_finals(experiment, runs, folder)
    if experiment.kind == "table":
        return make_table(experiment, study, runs, folder)
    if experiment.kind == "lengths":
        return make_lengths(experiment, study, runs, folder)
    if experiment.kind == "anchors":
        return make_anchors(experiment, study, runs, folder)
    if experiment.kind == "mmer":
        return make_mmer(experiment, study, runs, folder)
    if experiment.kind == "comparison":
        return make_comparison(experiment, study, runs, folder)
    if experiment.kind == "rates":
        return make_rates(experiment, runs, folder)
    if experiment.kind == "amplification":
        return make_amplification(study, runs, folder)
    if experiment.kind == "embedding":
        return make_embedding(experiment, study, runs, folder)
    return make_timing(experiment, study, folder)
