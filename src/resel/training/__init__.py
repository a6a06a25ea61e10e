"""The loop: collecting, learning, evaluating."""

from resel.training.actor import Actor, PolicyState
from resel.training.collector import Collector
from resel.training.divergence import ROLLBACKS, is_good
from resel.training.env_factory import make_envs, make_task, task_envs
from resel.training.evaluation import Evaluation, evaluate, evaluation_seeds
from resel.training.progress import Callback, ProgressLine, TrainProgress, describe_groups
from resel.training.score import final_evaluations, is_held, learning_since
from resel.training.trainer import Trainer, choose_device
from resel.training.validation import check_tensors, damaged_if_wrong, whole

__all__ = [
    "ROLLBACKS",
    "Actor",
    "Callback",
    "Collector",
    "Evaluation",
    "PolicyState",
    "ProgressLine",
    "TrainProgress",
    "Trainer",
    "check_tensors",
    "choose_device",
    "damaged_if_wrong",
    "describe_groups",
    "evaluate",
    "evaluation_seeds",
    "final_evaluations",
    "is_good",
    "is_held",
    "learning_since",
    "make_envs",
    "make_task",
    "task_envs",
    "whole",
]
