"""The paper's figures and tables: what to run for each, how to get it run, what comes of it."""

from resel.experiments._settings import SCALES, Experiment, Scale, Setting, Study
from resel.experiments.catalogue import CATALOGUE, choose, narrowed
from resel.experiments.comparison import COMPARISON, comparison
from resel.experiments.reproduce import EngineName, Sweep, reproduce

__all__ = [
    "CATALOGUE",
    "COMPARISON",
    "SCALES",
    "EngineName",
    "Experiment",
    "Scale",
    "Setting",
    "Study",
    "Sweep",
    "choose",
    "comparison",
    "narrowed",
    "reproduce",
]
