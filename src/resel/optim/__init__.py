"""Parameter groups with rates of their own, checked steps, temperature, clamp of targets."""

from resel.optim.amplification import PackedInputs, critic_outputs, moved, policy_outputs
from resel.optim.auto_rate import MEASURE_EVERY, AutoRate, Steered
from resel.optim.checks import READ_EVERY, StepCheck, StepRecord
from resel.optim.clamp import TargetClamp
from resel.optim.groups import (
    ParameterGroup,
    build_optimizer,
    clip_gradients,
    gradients,
    optimizer_tensors,
    parameter_groups,
    restore_optimizer,
)
from resel.optim.rmsprop import RMSprop
from resel.optim.temperature import Temperature, target_entropy

__all__ = [
    "MEASURE_EVERY",
    "READ_EVERY",
    "AutoRate",
    "PackedInputs",
    "ParameterGroup",
    "RMSprop",
    "Steered",
    "StepCheck",
    "StepRecord",
    "TargetClamp",
    "Temperature",
    "build_optimizer",
    "clip_gradients",
    "critic_outputs",
    "gradients",
    "moved",
    "optimizer_tensors",
    "parameter_groups",
    "policy_outputs",
    "restore_optimizer",
    "target_entropy",
]
