"""Searching for settings: trials are runs, a study of Optuna says which is next."""

from resel.tuning._clock import parse_budget
from resel.tuning._search import FIRST_SEED, Search, without_password
from resel.tuning._summary import Summary, Trial, summarize
from resel.tuning.tune import PRESET, Place, tune

__all__ = [
    "FIRST_SEED",
    "PRESET",
    "Place",
    "Search",
    "Summary",
    "Trial",
    "parse_budget",
    "summarize",
    "tune",
    "without_password",
]
