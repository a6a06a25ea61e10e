"""Learning: the paper's losses, its optimiser and the update that joins them."""

from resel.algorithm.learner import Learner, Metrics
from resel.algorithm.optim import ParameterGroup, parameter_groups

__all__ = ["Learner", "Metrics", "ParameterGroup", "parameter_groups"]
