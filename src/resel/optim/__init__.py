"""Parameter groups with rates of their own, and steps that are checked before they are taken."""

from resel.optim.amplification import PackedInputs, moved, policy_outputs
from resel.optim.checks import READ_EVERY, StepCheck, StepRecord
from resel.optim.groups import ParameterGroup, build_optimizer, gradients, parameter_groups

__all__ = [
    "READ_EVERY",
    "PackedInputs",
    "ParameterGroup",
    "StepCheck",
    "StepRecord",
    "build_optimizer",
    "gradients",
    "moved",
    "parameter_groups",
    "policy_outputs",
]
