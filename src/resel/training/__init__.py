"""The loop: collecting, learning, evaluating."""

from resel.training.actor import Actor, PolicyState
from resel.training.beside import Snapshot
from resel.training.clock import duration
from resel.training.collector import Collector
from resel.training.compiling import compiled_beside, compiling_note
from resel.training.device import GPUFault, choose_device, gpu_fault
from resel.training.divergence import ROLLBACKS, is_good
from resel.training.env_factory import make_envs, make_task, named_envs, task_envs
from resel.training.evaluation import Evaluation, evaluate, evaluation_seeds
from resel.training.playing import play
from resel.training.privileged import named_by_task, signal_of
from resel.training.progress import Callback, ProgressLine, TrainProgress, describe_groups
from resel.training.score import (
    HELD_EVALUATIONS,
    Ending,
    ending_by,
    final_evaluations,
    is_held,
    learning_since,
    may_be_held,
    reached,
)
from resel.training.stopping import stopped_by
from resel.training.trainer import Trainer, task_trainer
from resel.training.validation import check_tensors, damaged_if_wrong, whole
from resel.training.workload import (
    Workload,
    batch_steps,
    compile_kernels,
    filled_buffer,
    made_up_trajectory,
)

__all__ = [
    "HELD_EVALUATIONS",
    "ROLLBACKS",
    "Actor",
    "Callback",
    "Collector",
    "Ending",
    "Evaluation",
    "GPUFault",
    "PolicyState",
    "ProgressLine",
    "Snapshot",
    "TrainProgress",
    "Trainer",
    "Workload",
    "batch_steps",
    "check_tensors",
    "choose_device",
    "compile_kernels",
    "compiled_beside",
    "compiling_note",
    "damaged_if_wrong",
    "describe_groups",
    "duration",
    "ending_by",
    "evaluate",
    "evaluation_seeds",
    "filled_buffer",
    "final_evaluations",
    "gpu_fault",
    "is_good",
    "is_held",
    "learning_since",
    "made_up_trajectory",
    "make_envs",
    "make_task",
    "may_be_held",
    "named_by_task",
    "named_envs",
    "play",
    "reached",
    "signal_of",
    "stopped_by",
    "task_envs",
    "task_trainer",
    "whole",
]
