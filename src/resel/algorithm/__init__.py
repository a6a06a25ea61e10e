"""Learning: the paper's losses, its optimiser and the update that joins them."""

from resel.algorithm.checks import READ_EVERY, StepCheck
from resel.algorithm.learner import Learner, Metrics
from resel.algorithm.optim import ParameterGroup, parameter_groups

__all__ = [
    "READ_EVERY",
    "Learner",
    "Metrics",
    "ParameterGroup",
    "StepCheck",
    "parameter_groups",
]
