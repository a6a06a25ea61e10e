"""The loop: collecting, learning, evaluating, and the run around them."""

from resel.training.acting import Actor, PolicyState
from resel.training.collector import Collector
from resel.training.environment import AnyStage, Env, EnvFactory, Outcome, Stage, build
from resel.training.evaluation import Evaluation, evaluate, evaluation_seeds
from resel.training.opening import open_trainer
from resel.training.progress import Callback, ProgressLine, TrainProgress, describe_groups
from resel.training.replay_log import ReplayLog
from resel.training.run import Run
from resel.training.saving import check_spaces, read_agent, save_agent, spaces_of, use_weights
from resel.training.stages import make_stages, make_task, task_stages
from resel.training.starting import Resume, finished_result, saved_config
from resel.training.trainer import Trainer, choose_device
from resel.training.worker import WorkerStage

__all__ = [
    "Actor",
    "AnyStage",
    "Callback",
    "Collector",
    "Env",
    "EnvFactory",
    "Evaluation",
    "Outcome",
    "PolicyState",
    "ProgressLine",
    "ReplayLog",
    "Resume",
    "Run",
    "Stage",
    "TrainProgress",
    "Trainer",
    "WorkerStage",
    "build",
    "check_spaces",
    "choose_device",
    "describe_groups",
    "evaluate",
    "evaluation_seeds",
    "finished_result",
    "make_stages",
    "make_task",
    "open_trainer",
    "read_agent",
    "save_agent",
    "saved_config",
    "spaces_of",
    "task_stages",
    "use_weights",
]
